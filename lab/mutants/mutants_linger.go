// SPDX-License-Identifier: Apache-2.0

package main

// lingerMutants break locks that stay with a client after their unlock.
var lingerMutants = []mutant{
	{
		name: "linger-never-cools", catcher: test("TestLingerCoolsDown"), file: "internal/core/wanted.go",
		old: "			s.sh.cooling.begin(w.g.claim.Name, w.g.paidLocked())\n",
		new: "",
	},
	{
		name: "linger-cools-forever", catcher: test("TestLingerAfterAVisitor"), file: "internal/core/acquisition.go",
		old: "	known.left--\n",
		new: "",
	},
	{
		name: "linger-cools-no-longer", catcher: test("TestLingerCoolsDown"), file: "internal/core/acquisition.go",
		old: "	if paid {\n",
		new: "	if true {\n",
	},
	{
		name: "linger-cools-a-sticky-name", catcher: test("TestLingerAfterAVisitor"), file: "internal/core/acquisition.go",
		old: "	if paid {\n",
		new: "	if false {\n",
	},
	{
		name: "linger-cool-claims-show-it", catcher: test("TestLingerCoolsDown"), file: "internal/core/acquisition.go",
		old: "	cool.Linger = 0\n",
		new: "",
	},
	{
		name: "linger-cool-grants-stay", catcher: test("TestLingerCoolGrantsAreHandedOff"), file: "internal/core/shard.go",
		old: "(a.Linger == b.Linger || a.Linger == 0)",
		new: "a.Linger == b.Linger",
	},
	{
		name: "linger-end-moves", catcher: test("TestLinger04LostNotice"), file: "internal/core/lease.go",
		old: "	if g.lingerEnd == 0 {\n		g.lingerEnd = now.Add(",
		new: "	if true {\n		g.lingerEnd = now.Add(",
	},
	{
		name: "linger-not-ended", catcher: test("TestLinger09ManyNames"), file: "internal/core/session.go",
		old: "			g.recallLocked() // one that",
		new: "			// one that",
	},
	{
		name: "linger-without-cap", catcher: test("TestLinger09ManyNames"), file: "internal/core/lease.go",
		old: "len(s.idle) < maxLingering && ",
		new: "",
	},
	{
		name: "linger-although-wanted", catcher: test("TestLinger05NoticeBeforeTheGrant"), file: "internal/core/lease.go",
		old: "		g.tokenLeft() && !g.wantedLocked() && (",
		new: "		g.tokenLeft() && (",
	},
	{
		name: "linger-not-recalled", catcher: test("TestLingerIsRecalledByAWaiter"), file: "internal/core/wanted.go",
		old: "			w.g.recallLocked()\n",
		new: "",
	},
	{
		name: "linger-tokens-repeat", catcher: test("TestLinger11TokensAreUsedUp"), file: "internal/core/lease.go",
		old: "func (g *grant) tokenLeft() bool { return g.index != 0 }",
		new: "func (g *grant) tokenLeft() bool { return true }",
	},
	{
		name: "linger-suspend-missed", catcher: test("TestLinger10Suspended"), file: "internal/core/lease.go",
		old: "now >= clock.Instant(s.deadline.Load()) ||\n		now >= g.lingerEnd || ",
		new: "",
	},
	{
		name: "linger-in-doubt", catcher: test("TestLinger06SessionInDoubt"), file: "internal/core/lease.go",
		old: "	s.doubtful = true\n",
		new: "",
	},
	{
		name: "linger-not-given-back-in-doubt", catcher: test("TestLinger06SessionInDoubt"), file: "internal/core/lease.go",
		old: "	s.doubtful = true\n	s.recallAllLocked()\n",
		new: "	s.doubtful = true\n",
	},
	{
		name: "linger-reclaimed", catcher: test("TestLinger06DataLoss"), file: "internal/core/renewal.go",
		old: "	if !s.steadyLocked() {\n		s.recallAllLocked()\n	}\n",
		new: "",
	},
	{
		name: "linger-keeps-the-session", catcher: test("TestLinger08SessionRetires"), file: "internal/core/lease.go",
		old:  "		if g.state != grantLingering {\n			return false\n",
		new:  "		if true {\n			return false\n",
		also: &edit{file: "internal/core/grant.go", old: "	} else {\n		g.s.idleSince = ", new: "	}\n	{\n		g.s.idleSince = "},
	},
	{
		name: "linger-with-other-terms", catcher: test("TestLinger12HolderRecord"), file: "internal/core/lease.go",
		old: "	if !sameTerms(g.claim.Terms, terms) || !s.steadyLocked()",
		new: "	if !s.steadyLocked()",
	},
	{
		name: "linger-before-the-notice", catcher: test("TestLingerCancelsTheContextFirst"), file: "internal/core/release.go",
		old: "		g.s.users++\n		return release{g: g, by: by, linger: true, now: now}\n",
		new: "		g.lingerLocked(now)\n		return release{}\n",
	},
	{
		name: "try-does-not-recall", catcher: test("TestLinger02TryLockOfAnotherProcess"), file: "internal/core/recall.go",
		old: "		longest = max(longest, h.Linger)\n",
		new: "		longest = max(longest, 0*h.Linger)\n",
	},
	{
		name: "try-waits-as-long-as-it-lingers", catcher: test("TestLinger02TryLockOfAnotherProcess"), file: "internal/core/recall.go",
		old: "	return min(longest, recallSlack+recallTrips*now.Sub(ans.sent))\n",
		new: "	return longest\n",
	},
	{
		name: "try-recall-not-withdrawn", catcher: test("TestLinger02TryLockOfAnotherProcess"), file: "internal/core/recall.go",
		old: "		if !a.admitted { // even when the store panics\n			p.withdraw()\n",
		new: "		if false { // even when the store panics\n			p.withdraw()\n",
	},
	{
		name: "linger-watch-kept", catcher: test("TestGivenUpLingerKeepsNoWatch"), file: "internal/core/try.go",
		old: "	p.unwatch()\n",
		new: "",
	},
	{
		name: "linger-not-shown", catcher: clause("W10"), file: "store/memstore/inspect.go",
		old: "		Linger:  t.Linger,\n",
		new: "",
	},
	{
		name: "linger-end-missed", catcher: test("TestLingerEndsDuringAnUnlock"), file: "internal/core/lease.go",
		old: "(g.lingerEnd == 0 || g.nextCheck != 0 && now < g.lingerEnd)",
		new: "(g.lingerEnd == 0 || now < g.lingerEnd)",
	},
	{
		name: "linger-abandons-what-is-done", catcher: test("TestPanicOfAnUnlockThatDoesNotLingerAfterAll"), file: "internal/core/lease.go",
		old: "	*r = g.releaseLocked(r.by, now) // so that a panic abandons this one\n	sh.mu.Unlock()\n	return r.finish(ctx)\n",
		new: "	rest := g.releaseLocked(r.by, now)\n	sh.mu.Unlock()\n	return rest.finish(ctx)\n",
	},
}
