// SPDX-License-Identifier: Apache-2.0

package main

// Files of the locks that other libraries share, and the packages whose tests kill their mutants.
const (
	claimsFile    = "store/redisstore/internal/foreign/claims.go"
	renewFile     = "store/redisstore/internal/foreign/keepalive.go"
	hashFile      = "store/redisstore/internal/foreign/session.go"
	hashScripts   = "store/redisstore/internal/foreign/lua/"
	hashPkg       = "store/redisstore/internal/foreign"
	redissonPkg   = "store/redisstore/redissonstore"
	setnxPkg      = "store/redisstore/setnxstore"
	redlockFolder = "store/redisstore/internal/redlock/"
	comparedTest  = "TestRenewalIsComparedWithWhatIsKnown"
	readersLeave  = "TestReaderThatLeavesDropsOnlyTheDead"
	forcedOpen    = "TestLockForcedOpenIsReported"
	sequenceTest  = "TestTokensContinueThoseOfRFencedLock"
	lostGrantTest = "TestGrantThatTheServerLostIsReported"
)

// sharedMutants break the stores of the formats of other libraries, and their scripts.
var sharedMutants = []mutant{
	{
		name: "rd-reclaimed-is-left-over", catcher: testOf("store/redisstore", "TestLockOfAnotherLibraryIsKeptAfterALossOfTheNewStore"), file: hashFile,
		old: "		s.claims.confirm(h.Claim.Seq, key, until)\n", new: "		_, _ = key, until\n",
	},
	{
		name: "rd-missing-not-compared", catcher: testOf(redissonPkg, lostGrantTest), file: renewFile,
		old: "	if compare {\n", new: "	if !compare {\n",
	},
	{
		name: "rd-missing-if-granted-meanwhile", catcher: testOf(hashPkg, comparedTest), file: claimsFile,
		old: "one.granted && one.round < round && one.seen", new: "one.granted && one.seen",
	},
	{
		name: "rd-missing-if-withdrawn-meanwhile", catcher: testOf(hashPkg, comparedTest), file: claimsFile,
		old: "if _, is := reported[seq]; !is && one.granted && one.round", new: "if _, is := reported[seq]; !is && one.round",
	},
	{
		name: "rd-left-over-if-withdrawn-meanwhile", catcher: testOf(hashPkg, comparedTest), file: claimsFile,
		old: "!now && c.first <= seq", new: "(now || true) && c.first <= seq",
	},
	{
		name: "rd-left-over-of-before", catcher: testOf(hashPkg, comparedTest), file: claimsFile,
		old: "!now && c.first <= seq && seq <= c.last", new: "!now",
	},
	{
		name: "rd-left-over-stays", catcher: testOf(redissonPkg, "TestReleaseThatTheServerLostIsRepeated"), file: renewFile,
		old: "	for _, seq := range r.left {\n", new: "	for _, seq := range r.left[:0] {\n",
	},
	{
		name: "rd-doubt-dropped", catcher: testOf(hashPkg, "TestClaimsThatAreNotOnTheServerAreDropped"), file: claimsFile,
		old: "if !one.granted && !one.doubted && one.sent == 0 {", new: "if !one.granted && one.sent == 0 {",
	},
	{
		name: "rd-max-hold-missing", catcher: testOf(hashPkg, "TestGrantWithMaxHoldIsNotMissingAfterItsEnd"), file: claimsFile,
		old: "return !c.until.IsZero() && !time.Now().Before(c.until)", new: "return false",
	},
	{
		name: "rd-late-await-granted", catcher: testOf(redissonPkg, "TestAttemptOfAWaitThatIsLateIsNotGranted"), file: hashFile,
		old: "flag(w.Tombstone || doubted)", new: "flag(w.Tombstone || doubted && false)",
	},
	{
		name: "rd-one-page-at-once", catcher: testOf(redissonPkg, "TestRenewalOfManyLeases"), file: renewFile,
		old: "make(chan struct{}, atOnce)", new: "make(chan struct{}, 1)",
	},
	{
		name: "rd-keep-not-renewed", catcher: testOf(redissonPkg, "TestRenewalTakesFewScripts"), file: hashScripts + "lib.lua",
		old: "  redis.call('PEXPIRE', key, rest)\n  return true\n", new: "  return true\n",
	},
	{
		name: "rd-keep-broken-not-reported", catcher: testOf(redissonPkg, forcedOpen), file: hashScripts + "keep.lua",
		old: "redis.call('HSET', SESSION, 'b' .. seq, 1)", new: "redis.call('HGET', SESSION, 'b' .. seq)",
	},
	{
		name: "rd-keep-takes-from-java", catcher: testOf(redissonPkg, forcedOpen), file: hashScripts + "lib.lua",
		old: "return redis.pcall('HEXISTS', key, field_of(mode, holder)) == 1", new: "return redis.call('EXISTS', key) == 1",
	},
	{
		name: "rd-mend-lost-stays", catcher: testOf(redissonPkg, lostGrantTest), file: hashScripts + "mend.lua",
		old: "elseif not claim and not put_back(seq, key) then", new: "elseif not claim and put_back(seq, key) then",
	},
	{
		name: "rd-mend-all-lost", catcher: testOf(redissonPkg, "TestListOfClaimsThatWasLostIsMadeAgain"), file: hashScripts + "mend.lua",
		old: "    if held_by(mode, key, holder) then\n", new: "    if false then\n",
	},
	{
		name: "rd-release-not-compared", catcher: testOf(redissonPkg, "TestUnlockOfAGrantThatTheServerLost"), file: hashScripts + "release.lua",
		old: "(claim or newest(ARGV[7]))", new: "claim",
	},
	{
		name: "rd-release-of-another", catcher: testOf(redissonPkg, forcedOpen), file: hashScripts + "release.lua",
		old: "elseif hash and redis.call('HEXISTS', key, holder) == 1 then", new: "elseif hash then",
	},
	{
		name: "rd-take-counts-twice", catcher: testOf(redissonPkg, "TestLostReplyLeavesACountOfOne"), file: hashScripts + "take.lua",
		old: "if redis.call('HEXISTS', key, holder) == 1 then\n", new: "if redis.call('HEXISTS', key, holder) == 1 then\n  redis.call('HINCRBY', key, holder, 1)\n",
	},
	{
		name: "rd-take-of-a-string", catcher: testOf(redissonPkg, "TestKeyInUseIsAnError"), file: hashScripts + "take.lua",
		old: "if redis.call('HEXISTS', key, 'mode') == 1 then return { 'kind', 'RReadWriteLock' } end\n", new: "",
	},
	{
		name: "rd-take-passes-a-fair-queue", catcher: testOf(redissonPkg, "TestKeyInUseIsAnError"), file: hashScripts + "take.lua",
		old: "if redis.call('EXISTS', named('redisson_lock_queue', key)) == 1 then return { 'kind', 'RFairLock' } end\n", new: "",
	},
	{
		name: "rd-token-below-the-counter", catcher: testOf(redissonPkg, sequenceTest), file: hashScripts + "lib.lua",
		old: "math.max(last, now)", new: "now",
	},
	{
		name: "rd-token-below-the-clock", catcher: testOf(redissonPkg, sequenceTest), file: hashScripts + "lib.lua",
		old: "(math.floor(math.max(last, now) / 256) + 1) * 256", new: "(math.floor(last / 256) + 1) * 256",
	},
	{
		name: "rd-token-meets-a-handoff", catcher: testOf(redissonPkg, sequenceTest), file: hashScripts + "lib.lua",
		old: "number(token + 255)", new: "number(token)",
	},
	{
		name: "rd-unlock-wakes-no-one", catcher: testOf(redissonPkg, "TestWaiterIsWokenByTheMessageOfAnUnlock"), file: hashScripts + "lib.lua",
		old: "  wake('redisson_lock__channel', key, '0', sharded)\n", new: "",
	},
	{
		name: "rd-redlock-of-a-minority", catcher: testOf(setnxPkg, "TestRedlockThatLostItsMajorityIsReported"), file: redlockFolder + "store.go",
		old: "return len(s.nodes)/2 + 1", new: "return len(s.nodes) / 2",
	},
	{
		name: "rd-redlock-loss-not-reported", catcher: testOf(setnxPkg, "TestRedlockThatLostItsMajorityIsReported"), file: redlockFolder + "keepalive.go",
		old: "renewal.Broken = append(renewal.Broken, seq)", new: "_ = seq",
	},
	{
		name: "rd-string-not-published", catcher: testOf(setnxPkg, "TestChannelWakesWaiters"), file: hashScripts + "lib.lua",
		old: "  if channel ~= '' then redis.call('PUBLISH', channel, key) end\n", new: "",
	},
	{
		name: "rd-reader-drops-the-living", catcher: testOf(redissonPkg, readersLeave), file: hashScripts + "lib.lua",
		old: "  if longest > 0 then\n", new: "  if false then\n",
	},
	{
		name: "rd-reader-keeps-the-dead", catcher: testOf(redissonPkg, readersLeave), file: hashScripts + "lib.lua",
		old: "longest = math.max(longest, redis.call('PTTL', alive(key, fields[i], hold)))", new: "longest = math.max(longest, redis.call('PTTL', key))",
	},
}
