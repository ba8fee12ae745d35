// SPDX-License-Identifier: Apache-2.0

package main

// memstoreMutants break the reference store.
var memstoreMutants = []mutant{
	{
		name: "ms-reclaim-keeps-exclusive", catcher: clause("R5"), file: "store/memstore/memory.go",
		old: "		sh.downgrade(sh.lock(name), e, h.Claim.Terms, now)\n",
		new: "",
	},
	{
		name: "ms-extend-soonest", catcher: clause("S3"), file: "store/memstore/shard.go",
		old: `	if sh.soonest.IsZero() || l.end.Before(sh.soonest) {
		sh.soonest = l.end
	}
}`,
		new: `	if sh.soonest.IsZero() {
		sh.soonest = l.end
	}
}`,
	},
	{
		name: "ms-spent-regranted", catcher: clause("I4"), sim: "fifo", file: "store/memstore/shard.go",
		old: "	return tombstoned || spent\n",
		new: `	_ = spent
	return tombstoned
`,
	},
	{
		name: "ms-end-one-by-one", catcher: clause("Q3"), file: "store/memstore/shard.go",
		old: `	sh.end(ended, now)
	return now
`,
		new: `	for _, l := range ended {
		sh.end([]*liveness{l}, now)
	}
	return now
`,
	},
	{
		name: "ms-ttl-end-off", catcher: test("TestSessionThatTheStoreEndedIsReplaced"), file: "store/memstore/shard.go",
		old: "		if !now.Before(l.end) {\n",
		new: "		if now.After(l.end) {\n",
	},
	{
		name: "ms-tidy-never", catcher: testOf("store/memstore", "TestFreeLocksTakeNoMemory"), file: "store/memstore/shard.go",
		old: "len(l.grants) == 0 && len(l.queue) == 0 {",
		new: "false {",
	},
	{
		name: "ms-limit-never-removed", catcher: clause("L3"), file: "store/memstore/store.go",
		old: "		delete(sh.limits, name)\n",
		new: "",
	},
	{
		name: "ms-reentry-blocked-by-line", catcher: clause("O5"), file: "store/memstore/lock.go",
		old: "		if l.reenters(e.claim.Terms) {\n			l.queue",
		new: "		if false {\n			l.queue",
	},
	{
		name: "ms-joins-kept", catcher: clause("H4"), file: "store/memstore/lock.go",
		old: ", Kept: g.live == nil})",
		new: "})",
	},
	{
		name: "ms-break-first-only", catcher: clause("I4"), file: "store/memstore/lock.go",
		old: `		sh.expire(e, now)
	}
	if !found`,
		new: `		sh.expire(e, now)
		break
	}
	if !found`,
	},
	{
		name: "ms-break-keeps-minhold", catcher: clause("I4"), file: "store/memstore/lock.go",
		old: `	e.minEnd = time.Time{}
	sh.remove(e, now, 0)
}`,
		new: "	sh.remove(e, now, 0)\n}",
	},
	{
		name: "ms-reclaimed-not-noted", catcher: clause("R4"), file: "store/memstore/memory.go",
		old: "		sh.reclaimed[name] = base\n",
		new: "",
	},
	{
		name: "ms-reclaim-counter", catcher: testOf("store/memstore", "TestTokensStayAboveAReclaimedOne"), file: "store/memstore/memory.go",
		old: "	sh.counter = max(sh.counter, int64(base)/driver.TokenStep)\n	sh.notifyHolders(lk)",
		new: "	sh.notifyHolders(lk)",
	},
	{
		name: "ms-seed-by-clock-only", catcher: testOf("store/memstore", "TestTokensRiseOverLossesAtOneInstant"), file: "store/memstore/memory.go",
		old: "		begin = max(micros, sh.reached+1)\n",
		new: "",
	},
	{
		name: "ms-seed-with-floors", catcher: testOf("store/memstore", "TestLossKeepsNoCounter"), file: "store/memstore/memory.go",
		old: "		begin = max(micros, sh.reached+1)\n",
		new: "		begin = max(micros, sh.counter+1)\n",
	},
	{
		name: "ms-makeroom-any", catcher: clause("R4"), file: "store/memstore/memory.go",
		old: "		case g.token < h.Token.Base():\n",
		new: "		case true:\n",
	},
	{
		name: "ms-copy-no-tombstoned", catcher: clause("X3"), file: "store/memstore/memory.go",
		old: "			tombstoned: maps.Clone(l.tombstoned), spent",
		new: "			spent",
	},
	{
		name: "ms-copy-no-broken", catcher: clause("I4"), file: "store/memstore/memory.go",
		old: ", broken: maps.Clone(l.broken), ",
		new: ", ",
	},
	{
		name: "ms-become-no-awake", catcher: testOf("store/memstore", "TestAwaitHearsOfARestart"), file: "store/memstore/memory.go",
		old: "			e.awake() // waiters must learn of it\n",
		new: "			_ = e\n",
	},
	{
		name: "ms-reclaim-no-mode", catcher: clause("R4"), file: "store/memstore/memory.go",
		old: "		return sh.fits(sure, &driver.Terms{Mode: driver.Shared})\n",
		new: "		return true\n",
	},
	{
		name: "ms-look-hint-zero", catcher: clause("W4"), file: "store/memstore/inspect.go",
		old: "	out.PollAfter = l.soonestEnd(now) + time.Duration(min(out.Position, 8))*pollStep\n",
		new: "",
	},
	{
		name: "ms-look-hint-latest", catcher: clause("W4"), file: "store/memstore/inspect.go",
		old: "i == 0 || d < soonest {",
		new: "i == 0 || d > soonest {",
	},
	{
		name: "ms-list-skips-first", catcher: clause("I3"), file: "store/memstore/inspect.go",
		old: "if len(page.Locks) == q.Max {",
		new: "if len(page.Locks) == q.Max+1 {",
	},
	{
		name: "ms-withdraw-no-promote", catcher: clause("Q5"), file: "store/memstore/session.go",
		old: "	s.sh.promote(s.sh.lock(w.Name), now)\n	return found, nil",
		new: "	return found, nil",
	},
	{
		name: "ms-withdraw-spent-stays", catcher: testOf("store/memstore", "TestFreeLocksTakeNoMemory"), file: "store/memstore/session.go",
		old: "	delete(l.spent, w.Seq)\n",
		new: "",
	},
	{
		name: "ms-await-remaining", catcher: clause("H1"), file: "store/memstore/session.go",
		old: "		out.Remaining = 0\n",
		new: "",
	},
}
