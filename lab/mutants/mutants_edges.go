// SPDX-License-Identifier: Apache-2.0

package main

// edgeMutants drop conditions that few schedules and few callers meet.
var edgeMutants = []mutant{
	{
		name: "try-in-grace-is-busy", catcher: apiTest("TestGraceIsRecognizedFromEveryCall"), file: "internal/core/try.go",
		old: "	if ans.Grace {\n		return nil, a.resting(ctx, s, &ans)\n	}\n",
		new: "",
	},
	{
		name: "grace-is-a-timeout", catcher: apiTest("TestGraceIsRecognizedFromEveryCall"), file: "internal/core/waitreport.go",
		old: "		f.Err = a.endedInGrace(left, f.Err)\n",
		new: "		f.Err = chain(InGrace(left), f.Err)\n",
	},
	{
		name: "grace-behind-a-waiter-is-busy", catcher: apiTest("TestGraceIsRecognizedFromEveryCall"), file: "internal/core/try.go",
		old: "		case err == nil && st.Grace > 0:\n			return a.inGrace(st.Grace)\n",
		new: "",
	},
	{
		name: "grace-of-an-election", catcher: apiTest("TestGraceIsRecognizedFromEveryCall"), file: "election.go",
		old: "		case ctx.Err() != nil && errors.Is(err, ErrGrace):\n			return err\n",
		new: "",
	},
	{
		name: "grace-is-busy", catcher: apiTest("TestErrorTexts"), file: "errors.go",
		old: "func (e *GraceError) Is(target error) bool { return target == ErrGrace }",
		new: "func (e *GraceError) Is(target error) bool { return target == ErrGrace || target == ErrBusy }",
	},
	{
		name: "try-after-a-loss-gives-up", catcher: apiTest("TestGraceIsRecognizedFromEveryCall"), file: "internal/core/try.go",
		old: "		case errors.Is(err, driver.ErrReset) && a.c.clock",
		new: "		case false && errors.Is(err, driver.ErrReset) && a.c.clock",
	},
	{
		name: "once-rests-after-close", catcher: apiTest("TestCloseEndsTheWaitOfOnceForAGracePeriod"), file: "internal/core/try.go",
		old: "	defer context.AfterFunc(s.ctx, cancel)()\n	Sleep(",
		new: "	Sleep(",
	},
	{
		name: "relock-past-deadline", catcher: test("TestIdleLockIsNotTakenPastTheDeadline"), file: "internal/core/lease.go",
		old: "!s.steadyLocked() || now >= clock.Instant(s.deadline.Load()) ||",
		new: "!s.steadyLocked() ||",
	},
	{
		name: "linger-unsure", catcher: test("TestGrantInDoubtDoesNotLinger"), file: "internal/core/lease.go",
		old: " && !g.unsure &&\n",
		new: " &&\n",
	},
	{
		name: "downgrade-keeps-linger", catcher: test("TestDowngradeEndsTheLingering"), file: "internal/core/downgrade.go",
		old: "weaker.Record, weaker.Linger = terms.Mode, terms.Weight, terms.Limit, terms.Record, 0\n",
		new: "weaker.Record = terms.Mode, terms.Weight, terms.Limit, terms.Record\n",
	},
	{
		name: "recall-in-grace", catcher: test("TestTryDoesNotWaitForARecallInTheGracePeriod"), file: "internal/core/recall.go",
		old: "		case ans.Grace: // the store lost its data meanwhile\n			return nil, a.inGrace(ans.PollAfter)\n",
		new: "",
	},
	{
		name: "absent-resets-failures", catcher: test("TestClaimThatIsRemovedAgainAndAgainEndsTheWait"), file: "internal/core/acquisition.go",
		old: "		if ans.State != driver.Absent {\n",
		new: "		if true {\n",
	},
	{
		name: "mutex-reenters-semaphore", catcher: test("TestReaderDoesNotReenterAPermit"), file: "internal/core/lease.go",
		old: "	case terms.Limit > 0 || l.unlocked():\n",
		new: "	case l.unlocked():\n",
	},
	{
		name: "overdue-wrong-reason", catcher: test("TestLeaseWithAnEndThatWasNotRenewedSaysSo"), file: "internal/core/lease.go",
		old: "end != 0 && end <= clock.Instant(l.g.s.deadline.Load())",
		new: "end != 0",
	},
	{
		name: "handoff-other-owner", catcher: test("TestRecordNamesTheHolder"), file: "internal/core/shard.go",
		old: "a.Record.Owner == b.Record.Owner && ",
		new: "",
	},
	{
		name: "handoff-other-labels", catcher: test("TestRecordNamesTheHolder"), file: "internal/core/shard.go",
		old: "		maps.Equal(a.Record.Labels, b.Record.Labels)\n",
		new: "		(true || maps.Equal(a.Record.Labels, b.Record.Labels))\n",
	},
	{
		name: "marked-by-any", catcher: test("TestOnceDoesNotTakeTheMarkOfAnotherRunForItsOwn"), file: "internal/core/release.go",
		old: "h.Kept && h.Token.Base() == g.token.Base()",
		new: "h.Kept",
	},
	{
		name: "cleanup-no-wake", catcher: test("TestTryThatLearnsOfADataLossResumesAtOnce"), file: "internal/core/cleanup.go",
		old: "			s.renewNow()\n		}\n		s.cleanedUp(r, err)\n",
		new: "			_ = s\n		}\n		s.cleanedUp(r, err)\n",
	},
	{
		name: "watch-queues", catcher: test("TestRequestForNoticesQueuesNoClaim"), file: "internal/core/wanted.go",
		old: "		p.claim.Queue = false // what is not granted any more must not be queued\n",
		new: "",
	},
	{
		name: "wanted-unsure-dropped", catcher: test("TestUnansweredRequestForNoticesIsNotGrantedLater"), file: "internal/core/wanted.go",
		old: "		g.unsure = g.unsure || unsure\n",
		new: "",
	},
	{
		name: "withdrawal-not-refreshed", catcher: test("TestQueuedWithdrawalLeavesTheTombstoneThatBecameNecessary"), file: "internal/core/cleanup.go",
		old: "		r.g.withdrawalQueued, r.Withdrawal = false, r.g.withdrawalLocked() // it may",
		new: "		if r.g.withdrawalQueued = false; r.Name == \"\" {\n			r.Withdrawal = r.g.withdrawalLocked()\n		} // it may",
	},
	{
		name: "notify-keeps-links", catcher: test("TestEndedLeaseKeepsNoOthersInMemory"), file: "internal/core/grant.go",
		old: "		l.prev, l.next = nil, nil\n		l.cancelContext",
		new: "		l.cancelContext",
	},
	{
		name: "poll-busy-loop", catcher: test("TestHintOfTheStoreMakesNoBusyLoop"), file: "internal/core/acquisition.go",
		old: "	least := s.trusted() / 64 ",
		new: "	least := s.trusted() / 1000000 ",
	},
	{
		name: "election-short-term", catcher: apiTest("TestElectionDoesNotPauseAfterTermsOfASecond"), file: "election.go",
		old: "time.Since(began) >= ttl/50",
		new: "time.Since(began) >= ttl",
	},
	{
		name: "trace-too-long", catcher: apiTest("TestTraceThatIsNoneIsNotKept"), file: "mutex.go",
		old: "	if len(rec.Trace) > maxTrace {\n		rec.Trace = \"\"\n	}\n",
		new: "",
	},
	{
		name: "lockall-unlock-order", catcher: test("TestSetIsUnlockedFromItsLastName"), file: "lockall.go",
		old: "	for i := range slices.Backward(s.leases) {\n",
		new: "	for i := range s.leases {\n",
	},
	{
		name: "held-renew-unlocked", catcher: testOf("adapters/internal/held", "TestRenewThatAnUnlockOvertakesHoldsNothing"), file: "adapters/internal/held/held.go",
		old: "return errors.Join(lost.Err(), fresh.Unlock(ctx))",
		new: "return lost.Err()",
	},
	{
		name: "consul-kept", catcher: testOf("adapters/consullock", "TestLockThatIsOnlyKeptHasNoHolder"), file: "adapters/consullock/consullock.go",
		old: "len(st.Holders) == 0 || st.Holders[0].Kept {",
		new: "len(st.Holders) == 0 {",
	},
	{
		name: "http-scheme", catcher: testOf("fence/httpfence", "TestTokenDoesNotFollowARedirectToPlainHTTP"), file: "fence/httpfence/transport.go",
		old: "before.Scheme != r.URL.Scheme || ",
		new: "",
	},
	{
		name: "sql-refusal", catcher: testOf("fence/sqlfence", "TestRefusalNamesNoOlderMarkAsTheNewer"), file: "fence/sqlfence/table.go",
		old: "	if kept.Token <= given.Token {\n",
		new: "	if false {\n",
	},
}
