// SPDX-License-Identifier: Apache-2.0

package main

// Files of the plain commands of redisstore, and the package whose tests kill their mutants.
const (
	plainFile     = "store/redisstore/internal/native/plain.go"
	nativeSession = "store/redisstore/internal/native/session.go"
	keepAliveFile = "store/redisstore/internal/native/keepalive.go"
	listScripts   = "store/redisstore/internal/native/lua/"
	seenFile      = "store/redisstore/internal/native/seen.go"
	redisPkg      = "store/redisstore"
	nativePkg     = "store/redisstore/internal/native"
)

var byScenes = testOf(nativePkg, "TestScenes")

// listMutants break what redisstore does by plain commands. TestScriptMutants breaks its
// scripts.
var listMutants = []mutant{
	{
		name: "rl-grant-of-another-run", catcher: testOf(nativePkg, "TestAcquireAfterARestart"), file: plainFile,
		old: "	case !e.proven:\n		p.s.proof.lost()\n",
		new: "",
	},
	{
		name: "rl-grant-of-another-incarnation", catcher: byScenes, file: plainFile,
		old: "len(e.marker) < markerHead || e.marker[:7] != tail[7:] ||",
		new: "len(e.marker) < markerHead ||",
	},
	{
		name: "rl-grant-of-an-unchecked-server", catcher: byScenes, file: plainFile,
		old: "	case !p.fresh(rediscmd.NumberOf(e.marker[8:14])):\n",
		new: "",
	},
	{
		name: "rl-incarnation-not-remembered", catcher: byScenes, file: "store/redisstore/internal/native/seen.go",
		old: "-k.incarnation, 10",
		new: "0*k.incarnation, 10",
	},
	{
		name: "rl-grant-of-another-generation", catcher: byScenes, file: plainFile,
		old: "	case len(e.session) < sessionHead || e.session[6:13] != tail[:7]:\n",
		new: "	case len(e.session) < sessionHead:\n",
	},
	{
		name: "rl-grant-after-the-end", catcher: byScenes, file: plainFile,
		old: "		return p.s.alive.lives()\n",
		new: "		return true\n",
	},
	{
		name: "rl-grant-of-a-marked-claim", catcher: byScenes, file: plainFile,
		old: "	case e.marked:\n",
		new: "",
	},
	{
		name: "rl-marks-not-read", catcher: byScenes, file: plainFile,
		old: "		e.marked = e.marks()\n",
		new: "",
	},
	{
		name: "rl-marks-never-read", catcher: testOf(nativePkg, "TestTombstoneCostsLittle"), file: plainFile,
		old: "	p.marks.Store(e.marks())\n",
		new: "",
	},
	{
		name: "rl-grant-beside-a-holder", catcher: byScenes, file: plainFile,
		old: "if ticket > 0 && length == 2 {",
		new: "if ticket > 0 && length > 0 {",
	},
	{
		name: "rl-grant-without-a-ticket", catcher: byScenes, file: plainFile,
		old: "if ticket > 0 && length == 2 {",
		new: "if length == 2 {",
	},
	{
		name: "rl-half-a-release", catcher: byScenes, file: plainFile,
		old: "case ticket != 1 || claim != 1:",
		new: "case ticket < 0 || claim < 0:",
	},
	{
		name: "rl-next-not-notified", catcher: byScenes, file: plainFile,
		old: "	case length > 0:\n",
		new: "	case length < 0:\n",
	},
	{
		name: "rl-claim-removed-first", catcher: testOf(nativePkg, "TestPlainCommands"), file: plainFile,
		old: `	c.Add("LREM", list, "1", strconv.FormatInt(o.ticket, 10))
	c.Add("LREM", list, "1", o.element)
`,
		new: `	c.Add("LREM", list, "1", o.element)
	c.Add("LREM", list, "1", strconv.FormatInt(o.ticket, 10))
`,
	},
	{
		name: "rl-try-is-pushed", catcher: byScenes, file: plainFile,
		old: "	return c.Queue && p.calm",
		new: "	return p.calm",
	},
	{
		name: "rl-vote-is-pushed", catcher: byScenes, file: nativeSession,
		old: "c.Floor > 0, int64(c.Floor)",
		new: "false, int64(c.Floor)",
	},
	{
		name: "rl-shared-is-pushed", catcher: byScenes, file: plainFile,
		old: "c.Lift || !simple(c.Terms) || ",
		new: "c.Lift || ",
	},
	{
		name: "rl-tombstone-released", catcher: byScenes, file: plainFile,
		old: "c.name == w.Name && !w.Tombstone && w.KeepFor",
		new: "c.name == w.Name && w.KeepFor",
	},
	{
		name: "rl-kept-released", catcher: byScenes, file: plainFile,
		old: "!w.Tombstone && w.KeepFor == 0 &&\n",
		new: "!w.Tombstone &&\n",
	},
	{
		name: "rl-lost-push-not-doubted", catcher: testOf(nativePkg, "TestLostReplyOfABatch"), file: nativeSession,
		old: "		s.claims.doubt(k)\n",
		new: "",
	},
	{
		name: "ka-end-moved-back", catcher: testOf(nativePkg, "TestKeepAliveIsPlain"), file: keepAliveFile,
		old: `"XX", "GT", "CH"`,
		new: `"XX", "CH"`,
	},
	{
		name: "ka-closed-comes-back", catcher: testOf(nativePkg, "TestKeepAliveIsPlain"), file: keepAliveFile,
		old: `"XX", "GT", "CH"`,
		new: `"GT", "CH"`,
	},
	{
		name: "ka-arrives-after-the-end", catcher: testOf(nativePkg, "TestKeepAliveArrivesLate"), file: keepAliveFile,
		old: "	case now.UnixMilli() >= before:\n",
		new: "	case false:\n",
	},
	{
		name: "ka-broken-not-reported", catcher: byScenes, file: keepAliveFile,
		old: "moved == 1 && broken == \"\" && ",
		new: "moved == 1 && broken != \"?\" && ",
	},
	{
		name: "ka-other-incarnation", catcher: byScenes, file: keepAliveFile,
		old: "	if marker[:7] != k.s.tail[7:] {\n",
		new: "	if false {\n",
	},
	{
		name: "ka-not-moved", catcher: byScenes, file: keepAliveFile,
		old: "	return moved == 1 && broken",
		new: "	return moved < 2 && broken",
	},
	{
		name: "ka-of-another-run", catcher: byScenes, file: keepAliveFile,
		old: "	case !proven:\n",
		new: "	case !proven && false:\n",
	},
	{
		name: "ka-end-too-early", catcher: testOf(nativePkg, "TestKeepAliveByAClockBehind"), file: keepAliveFile,
		old: "	case end < now.UnixMilli()+ttl-took.Milliseconds(): // the clock was moved: the end is early\n",
		new: "	case end < took.Milliseconds():\n",
	},
	{
		name: "queued-claim-not-known", catcher: testOf(nativePkg, "TestClaimDeepInAQueueIsFoundAtOnce"),
		file: nativeSession,
		old:  "= queued, 0, own })",
		new:  "= queued, 0, \"\" })",
	},
	{
		name: "rl-script-in-a-moving-slot", catcher: testOf(nativePkg, "TestSharedLocksAreReleasedWhileASlotMoves"),
		file: "store/redisstore/internal/native/store.go",
		old:  `append(keys, base+none, base+":k", base+":s")`,
		new:  `append(keys, base, base+":k", base+":s")`,
	},
	{
		name: "rl-batch-in-a-moving-slot", catcher: testOf(nativePkg, "TestBatchesRunWholeWhileASlotMoves"),
		file: "store/redisstore/internal/native/batch.go",
		old:  "append(next.keys, s.base+none, ",
		new:  "append(next.keys, s.base, ",
	},
	{
		name: "rl-notified-before-the-last-write", catcher: testOf(nativePkg, "TestErrorInAScriptNotifiesNobody"), file: listScripts + "queue.lua",
		old: "        granted[#granted + 1] = e\n",
		new: "        push($channel .. e[SID], e[SEQ], e[COUNTER], '')\n",
	},
	{
		name: "rl-sweep-ends-what-is-kept", catcher: testOf(nativePkg, "TestSweepLeavesWhatIsKept"), file: listScripts + "sweep.lua",
		old: " or now < g[MAXEND] or ",
		new: " or ",
	},
	{
		name: "rl-kept-grant-removed-first", catcher: testOf(nativePkg, "TestErrorInAScriptKeepsWhatMinHoldKeeps"), file: listScripts + "lock.lua",
		old: "  fields[g] = new\n",
		new: "  fields[g] = new\n  if new ~= old then call('HDEL', k.G, old) end\n",
	},
	{
		name: "rl-grace-not-switched-on", catcher: testOf(redisPkg, "TestAProcessThatAsksForGraceSwitchesItOn"), file: listScripts + "lib.lua",
		old: "  m.grace, m.max = m.grace or ask > 0, math.max(m.max, math.abs(ask))\n",
		new: "  m.max = math.max(m.max, math.abs(ask))\n",
	},
	{
		name: "rl-seen-grace-forgotten", catcher: testOf(redisPkg, "TestAProcessThatAsksForGraceSwitchesItOn"), file: seenFile,
		old: "asks{a.grace || k.grace, ",
		new: "asks{a.grace, ",
	},
	{
		name: "rl-grace-not-finished", catcher: testOf(redisPkg, "TestGraceIsFinishedWhenAStrangerWasFirst"), file: listScripts + "lib.lua",
		old: "  if rest(m) > m.over then\n",
		new: "  if false then\n",
	},
	{
		name: "rl-grace-on-not-finished", catcher: testOf(redisPkg, "TestAnOperatorStrengthensAYoungIncarnation"), file: listScripts + "settings.lua",
		old: "else finish(this) end\n",
		new: "end\n",
	},
	{
		name: "rl-grace-cut-short", catcher: testOf(redisPkg, "TestWeakerSettingsWaitForTheEndOfAGracePeriod"), file: listScripts + "lib.lua",
		old: "  m.first = m.over\n",
		new: "  m.first = 0\n",
	},
	{
		name: "rl-max-not-undone", catcher: testOf(redisPkg, "TestAnOperatorUndoesALongMaxTTL"), file: listScripts + "settings.lua",
		old: "if weaker then this.over = math.min(this.over, rest(this)) else",
		new: "if not weaker then",
	},
	{
		name: "rl-seen-in-one-bucket-only", catcher: testOf(redisPkg, "TestGraceSeenInOneBucketCountsInAll"), file: seenFile,
		old: "k.grace || s.last.grace",
		new: "k.grace",
	},
	{
		name: "rl-seen-max-forgotten", catcher: testOf(redisPkg, "TestHighestMaxTTLDecidesTheGracePeriod"), file: seenFile,
		old: "max(a.maxTTL, k.maxTTL)}",
		new: "a.maxTTL}",
	},
	{
		name: "rl-max-lowered-by-a-process", catcher: testOf(redisPkg, "TestHighestMaxTTLDecidesTheGracePeriod"), file: listScripts + "lib.lua",
		old: "math.abs(ask) > m.max) then return false end\n  m.grace, m.max = m.grace or ask > 0, math.max(m.max, math.abs(ask))",
		new: "math.abs(ask) ~= m.max) then return false end\n  m.grace, m.max = m.grace or ask > 0, math.abs(ask)",
	},
	{
		name: "rl-weaker-under-a-session", catcher: testOf(redisPkg, "TestWeakerSettingsAreAnOperatorsStep"), file: listScripts + "settings.lua",
		old: "      more = more + 1\n",
		new: "",
	},
	{
		name: "rl-seen-brings-it-back", catcher: testOf(redisPkg, "TestWeakerSettingsAreAnOperatorsStep"), file: listScripts + "lib.lua",
		old: "tonumber(math.abs(tonumber($incarnation)) < m.inc and $asks or OWN)",
		new: "tonumber($asks)",
	},
	{
		name: "rl-new-namespace-waits", catcher: testOf(redisPkg, "TestNewNamespaceBeginsWithoutGrace"), file: listScripts + "lib.lua",
		old: "m.grace and (raw or SETUP ~= 'new') and m.max",
		new: "m.grace and m.max",
	},
}
