// SPDX-License-Identifier: Apache-2.0

package main

// releaseMutants break releasing, handing off and re-entering.
var releaseMutants = []mutant{
	{
		name: "pass-with-minhold", catcher: test("TestMinHoldIsNotPassedOnLocally"), file: "internal/core/release.go",
		old: "t.MinHold == 0 && t.MaxHold == 0 && t.Reentry == \"\"",
		new: "t.MaxHold == 0 && t.Reentry == \"\"",
	},
	{
		name: "pass-with-maxhold", catcher: test("TestMaxHoldIsNotPassedOnLocally"), file: "internal/core/release.go",
		old: "t.MinHold == 0 && t.MaxHold == 0 && t.Reentry == \"\"",
		new: "t.MinHold == 0 && t.Reentry == \"\"",
	},
	{
		name: "pass-another-config", catcher: apiTest("TestWriterIsNotStarved"), file: "internal/core/release.go",
		old: " && sameTerms(t, q.first.terms) &&",
		new: " &&",
	},
	{
		name: "pass-instead-of-keep", catcher: test("TestMarkIsKeptFromALocalWaiter"), file: "internal/core/release.go",
		old: "if g.keepFor == 0 && q != nil",
		new: "if q != nil",
	},
	{
		name: "finish-without-leave", catcher: apiTest("TestHooksSeeEveryTransition"), file: "internal/core/release.go",
		old: "	s.leftLocked()\n	r.by.answeredLocked(err)",
		new: "	_ = s\n	r.by.answeredLocked(err)",
	},
	{
		name: "queue-free-before-answer", catcher: test("TestOneClaimWhileAnUnlockIsUnderWay"), file: "internal/core/release.go",
		old: "q.state, q.exclusive = queueReturning, nil",
		new: "q.state, q.exclusive = queueIdle, nil",
	},
	{
		name: "broken-unlock-is-fine", catcher: test("TestUnlockTwiceGivesTheSameAnswer"), file: "internal/core/release.go",
		old: "case err == nil && found == driver.WasBroken:",
		new: "case err == nil && found == driver.Removed(99):",
	},
	{
		name: "gone-unlock-is-fine", catcher: test("TestSessionThatTheStoreEndedIsReplaced"), file: "internal/core/release.go",
		old: "		return g.gone(w)\n",
		new: "		return nil\n",
	},
	{
		name: "unlock-no-resume", catcher: test("TestWithdrawalThatHearsOfALossResumesAtOnce"), file: "internal/core/release.go",
		old: "			s.renewNow()\n		} else if",
		new: "			_ = s\n		} else if",
	},
	{
		name: "next-before-notified", catcher: test("TestOldContextEndsBeforeTheLeaseIsPassedOn"), file: "internal/core/release.go",
		old: `	if held != nil {
		held.cancel(cause)
	}
	l.emit(kind, cause)
	err := rest.finish(ctx)
	finished = true
`,
		new: `	l.emit(kind, cause)
	err := rest.finish(ctx)
	finished = true
	if held != nil {
		held.cancel(cause)
	}
`,
	},
	{
		name: "unlock-after-deadline-fine", catcher: test("TestValidComparesTheClockAtTheCall"), file: "internal/core/release.go",
		old: "	if now >= l.deadline() {\n		kind,",
		new: "	if false {\n		kind,",
	},
	{
		name: "reenter-past-deadline", catcher: test("TestNoReentryIntoALostLease"), file: "internal/core/lease.go",
		old: `	case c.clock.Now() >= l.deadline():
		return nil, l.overdueLocked()
	case terms.Mode`,
		new: "	case terms.Mode",
	},
	{
		name: "reenter-lost", catcher: test("TestNoReentryIntoALostLease"), file: "internal/core/lease.go",
		old: `	case l.cause != nil:
		return nil, l.cause
	case c.clock`,
		new: "	case c.clock",
	},
	{
		name: "reenter-another-client", catcher: test("TestNoReentryIntoAnotherClient"), file: "internal/core/lease.go",
		old: "if l.g.s.c == c && l.Name() == name {",
		new: "if l.Name() == name {",
	},
	{
		name: "semaphore-reenters", catcher: test("TestSemaphoreDoesNotReenterAMutex"), file: "internal/core/lease.go",
		old: `	if want.Limit > 0 {
		return nil, nil // a semaphore counts, it does not recognize its holders
	}
`,
		new: "",
	},
	{
		name: "reenter-stops-at-released", catcher: test("TestNothingIsKeptForAFreeLock"), file: "internal/core/lease.go",
		old: `	case terms.Limit > 0 || l.unlocked():
		return nil, nil
`,
		new: `	case terms.Limit > 0:
		return nil, nil
`,
	},
	{
		name: "deadline-ignores-ends", catcher: test("TestMaxHoldEnds"), file: "internal/core/lease.go",
		old: "		end = min(end, l.g.fixedEnd)\n",
		new: "		end = min(end, end)\n",
	},
	{
		name: "context-after-loss-alive", catcher: test("TestNoReentryWithoutTheContext"), file: "internal/core/lease.go",
		old: `		if l.cause != nil {
			cancel(l.cause)
		}
`,
		new: "",
	},
	{
		name: "admit-past-deadline", catcher: test("TestSuspendCountsAsTime"), file: "internal/core/grant.go",
		old: "	if now >= clock.Instant(p.s.deadline.Load()) {\n",
		new: "	if false {\n",
	},
	{
		name: "fixed-end-from-reply", catcher: test("TestMaxHoldEnds"), file: "internal/core/grant.go",
		old: "g.fixedEnd = ans.sent.Add(rest)",
		new: "g.fixedEnd = now.Add(rest)",
	},
	{
		name: "read-together-semaphore", catcher: apiTest("TestSemaphoreCountsEachOfEqualWaiters"), file: "internal/core/grant.go",
		old: "if t.Limit > 0 || t.MaxHold",
		new: "if t.MaxHold",
	},
	{
		name: "read-together-index", catcher: apiTest("TestMoreReadersThanTokensOfOneClaim"), file: "internal/core/grant.go",
		old: " && g.index < driver.TokenStep-1 {",
		new: " {",
	},
	{
		name: "admit-forgets-unsure", catcher: test("TestLateAttemptIsNotGranted"), file: "internal/core/grant.go",
		old: ", unsure: p.unsure}",
		new: "}",
	},
	{
		name: "spent-ok", catcher: test("TestMaxHoldThatComesTooLateIsAskedForAgain"), file: "internal/core/grant.go",
		old: "now >= g.fixedEnd {",
		new: "now > g.fixedEnd.Add(1<<62) {",
	},
	{
		name: "absent-before-the-reclaim", catcher: test("TestUnlockBeforeTheReclaimIsNotConfirmed"), file: "internal/core/release.go",
		old: "w.KeepFor == 0 && moved:",
		new: "w.KeepFor == 0 && moved && false:",
	},
	{
		name: "reclaimed-grant-stays-old", catcher: test("TestUnlockAfterTheReclaimIsConfirmedTwice"), file: "internal/core/reclaim.go",
		old: "			g.generation = s.generation\n",
		new: "",
	},
}
