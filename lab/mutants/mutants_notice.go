// SPDX-License-Identifier: Apache-2.0

package main

// noticeMutants break the notices that another caller waits for a lock.
var noticeMutants = []mutant{
	{
		name: "wanted-not-asked", catcher: test("TestWantedIsClosedByAnotherProcess"), file: "internal/core/wanted.go",
		old: "		if !s.c.Background(func() { g.watchInStore(w.asked) }) {\n",
		new: "		if true {\n",
	},
	{
		name: "wanted-without-tombstone", catcher: test("TestLateRequestForNoticesIsNotGranted"), file: "internal/core/wanted.go",
		old:  "		g.attempts++ // an unlock during the call must tombstone the claim\n",
		new:  "",
		also: &edit{file: "internal/core/wanted.go", old: "		g.attempts--\n		g.unsure = g.unsure || unsure\n", new: "		g.unsure = g.unsure || unsure\n"},
	},
	{
		name: "wanted-not-asked-again", catcher: test("TestLostRequestForNoticesIsRepeated"), file: "internal/core/wanted.go",
		old: "		case err == nil, s.endIfGone(err):\n			return\n",
		new: "		case true:\n			return\n",
	},
	{
		name: "wanted-not-kept-for-a-handoff", catcher: test("TestLeaseThatIsHandedOffIsWanted"), file: "internal/core/wanted.go",
		old: "		w.wanted = true\n",
		new: "",
	},
	{
		name: "wanted-local-waiter-ignored", catcher: test("TestWantedIsClosedByALocalWaiter"), file: "internal/core/wanted.go",
		old: "		g.s.watches[g.claim.Seq].sendAll()\n",
		new: "",
	},
	{
		name: "wanted-waiter-in-the-store-ignored", catcher: test("TestWantedOfEveryKindIsClosedByALocalWaiter"), file: "internal/core/wanted.go",
		old: "	for w := range s.watched[a.name] {\n		w.sendAll()\n	}\n",
		new: "",
	},
	{
		name: "wanted-waiter-before-it-ignored", catcher: test("TestWantedOfEveryKindIsClosedByALocalWaiter"), file: "internal/core/wanted.go",
		old: "	return g.s.waiting[g.claim.Name] > 0 || g.q",
		new: "	return g.q",
	},
	{
		name: "wanted-by-a-wait-for-grace", catcher: test("TestWantedIsNotClosedByAWaitInTheGracePeriod"), file: "internal/core/waitreport.go",
		old: "	if !out.Grace { // which is a wait for no holder\n",
		new: "	if true {\n",
	},
	{
		name: "wanted-by-readers-let-in-together", catcher: test("TestWantedIsNotClosedForReadersThatWaitedTogether"), file: "internal/core/grant.go",
		old: "	a.endWaitLocked() // before another has a lease on the grant: that one is not waited for\n",
		new: "",
	},
	{
		name: "wanted-by-a-wait-that-was-given-up", catcher: test("TestWaitThatIsGivenUpIsForgotten"), file: "internal/core/acquisition.go",
		old: "		defer a.endWait()\n",
		new: "",
	},
	{
		name: "wanted-watch-kept", catcher: test("TestWantedEndsWithItsLease"), file: "internal/core/grant.go",
		old: "	g.unwatchLocked()\n",
		new: "",
	},
	{
		name: "store-notice-of-queueing-missed", catcher: clause("W6"), file: "store/memstore/notice.go",
		old: "		if !g.notified {\n",
		new: "		if false {\n",
	},
	{
		name: "store-notice-at-renewal-missed", catcher: clause("W8"), file: "store/memstore/notice.go",
		old: "		if e.granted && len(sh.lock(e.claim.Name).queue) > 0 {\n",
		new: "		if false {\n",
	},
	{
		name: "store-reclaimed-not-watched", catcher: clause("W8"), file: "store/memstore/memory.go",
		old: "	e.watch(&h.Claim)\n	l.claims[",
		new: "	l.claims[",
	},
	{
		name: "store-notice-without-a-waiter", catcher: clause("W9"), file: "store/memstore/notice.go",
		old: "	if len(l.queue) == 0 || sh.notice",
		new: "	if sh.notice",
	},
	{
		name: "unlock-does-not-await-notices", catcher: test("TestUnlockAwaitsTheRequestForNotices"), file: "internal/core/release.go",
		old: "	if r.asked != nil {\n		r.awaitNotices(ctx)\n	}\n",
		new: "",
	},
}
