// SPDX-License-Identifier: Apache-2.0

package main

// fixMutants undo fixes of lab/repo/repotest/findings, each in the smallest way.
var fixMutants = []mutant{
	{
		name: "cleanup-one-at-once", catcher: test("TestAbandonedClaimsAreFreeWithinATTL"), file: "internal/core/cleanup.go",
		old: "s.cleanup.running < maxWithdrawals &&",
		new: "s.cleanup.running < 1 &&",
	},
	{
		name: "repeats-take-all-calls", catcher: test("TestSilentWithdrawalDelaysNoOther"), file: "internal/core/cleanup.go",
		old: "q.failed[0].due <= now && q.repeats < maxRepeats\n",
		new: "q.failed[0].due <= now\n",
	},
	{
		name: "mark-not-reclaimed", catcher: test("TestOnceMarkSurvivesAResetBeforeTheUnlock"), file: "internal/core/reclaim.go",
		old: "	for g := range s.leaving {\n		add(g)\n	}\n",
		new: "",
	},
	{
		name: "mark-of-the-last-lease-only", catcher: test("TestOnceMarkIsLeftByTheLastLease"), file: "internal/core/release.go",
		old: "g.keepFor = max(g.keepFor, keep)",
		new: "g.keepFor = keep",
	},
	{
		name: "mark-missing-after-an-early-unlock", catcher: apiTest("TestOnceReportsThatItsLeaseWasUnlocked"), file: "internal/core/release.go",
		old: "	if keep == 0 || errors.Is(err, ErrLost) {\n",
		new: "	if keep == 0 || err == nil || errors.Is(err, ErrLost) {\n",
	},
	{
		name: "second-unlock-does-not-wait", catcher: test("TestUnlockDuringUnlockReturnsTheSameAnswer"), file: "internal/core/release.go",
		old: "	if l.state.get() == leaseReleasing {\n",
		new: "	if false {\n",
	},
	{
		name: "released-grants-stay-linked", catcher: test("TestEndedLeaseKeepsNoOthersInMemory"), file: "internal/core/grant.go",
		old: "	g.prev, g.next = nil, nil // a lease that is kept must not keep the others\n",
		new: "",
	},
	{
		name: "downgrade-always-tombstones", catcher: test("TestDowngradeLeavesNoTombstone"), file: "internal/core/downgrade.go",
		old: "		l.g.attempts--\n",
		new: "",
	},
	{
		name: "downgrade-confirmed-by-itself", catcher: test("TestDowngradeAfterAFailedOneAsksAgain"), file: "internal/core/downgrade.go",
		old: "	case g.claim.Terms.Mode == driver.Shared && !g.downgradeUnconfirmed:\n",
		new: "	case g.claim.Terms.Mode == driver.Shared:\n",
	},
	{
		name: "resume-waits-for-the-call-timeout", catcher: test("TestLostRepliesOfAResumeLoseNothing"), file: "internal/core/reclaim.go",
		old: "	return min(s.c.opts.CallTimeout, left/2)\n",
		new: "	return max(s.c.opts.CallTimeout, min(0, left))\n",
	},
	{
		name: "renewal-not-made-after-a-suspend", catcher: test("TestRenewalThatASuspendDelayedIsMadeAtOnce"), file: "internal/core/session.go",
		old: "		s.renewNow() // the loop's timer stood still in a suspend\n",
		new: "",
	},
	{
		name: "lockall-returns-a-lost-set", catcher: test("TestLockAllAfterASuspendDoesNotReturnALostSet"), file: "lockall.go",
		old: "	return s.lost() // a deadline may have passed that the context does not show yet\n",
		new: "	return nil\n",
	},
	{
		name: "lockall-asks-every-lease-again", catcher: test("TestLockAllCostsTheSameForEachName"), file: "lockall.go",
		old: "		if err != nil || waiting.Err() != nil {\n",
		new: "		if err != nil || waiting.Err() != nil || true {\n",
	},
	{
		name: "lockall-waits-without-its-first-lease", catcher: test("TestLockAllEndsWhenALeaseIsLostDuringTheWait"), file: "lockall.go",
		old: "			defer context.AfterFunc(l.Context(), stop)()\n",
		new: "",
	},
	{
		name: "unlock-that-panics-keeps-the-grant", catcher: test("TestPanicLeavesNothingBehind"), file: "internal/core/release.go",
		old: "		r.g.queueWithdrawalLocked()\n		r.g.s.sh.mu.Unlock()\n		r.over(",
		new: "		r.g.s.sh.mu.Unlock()\n		r.over(",
	},
	{
		name: "panic-leaves-the-queue-driven", catcher: test("TestPanicLeavesNothingBehind"), file: "internal/core/acquisition.go",
		old: "		if l == nil && !a.admitted { // even when a hook or the store panics\n",
		new: "		if l == nil && !a.admitted && recover() == nil {\n",
	},
	{
		name: "abandoned-lease-has-no-end", catcher: test("TestEveryLeaseHasABeginningAndAnEndAfterAPanic"), file: "internal/core/release.go",
		old: "		guarded(func() { l.emit(LeaseReleased, nil) })\n",
		new: "",
	},
	{
		name: "readers-after-a-panic-not-announced", catcher: test("TestEveryLeaseHasABeginningAndAnEndAfterAPanic"), file: "internal/core/grant.go",
		old: "			r.lease.announceAfterPanic()\n",
		new: "",
	},
	{
		name: "second-panic-stops-the-cleanup", catcher: test("TestPanicOfEveryHookLeavesNothingOfASetBehind"), file: "internal/core/lease.go",
		old: "	defer func() { _ = recover() }()\n",
		new: "",
	},
	{
		name: "close-tries-once", catcher: test("TestCloseTriesAgain"), file: "internal/core/session.go",
		old: "		case !certain, !Transient(err) && !errors.Is(err, driver.ErrReset):\n			return err\n",
		new: "		default:\n			return err\n",
	},
	{
		name: "close-does-not-reopen", catcher: test("TestCloseAfterAResetGivesLocksBack"), file: "internal/core/session.go",
		old: "		if errors.Is(err, driver.ErrReset) {\n			var again",
		new: "		if false {\n			var again",
	},
	{
		name: "close-says-nothing", catcher: test("TestCloseReportsWhatWasNotGivenBack"), file: "internal/core/session.go",
		old: "	if err := s.closeInStore(drv, owing); err != nil && owing {\n",
		new: "	if err := s.closeInStore(drv, owing); err != nil && false {\n",
	},
	{
		name: "trusted-without-drift", catcher: test("TestHolderIsNotifiedAMarginBefore"), file: "internal/timing/timing.go",
		old: "	return ttl - time.Duration(float64(ttl)*drift) - margin",
		new: "	return ttl - margin",
	},
	{
		name: "trusted-without-margin", catcher: test("TestHolderIsNotifiedAMarginBefore"), file: "internal/timing/timing.go",
		old: "	return ttl - time.Duration(float64(ttl)*drift) - margin",
		new: "	return ttl - time.Duration(float64(ttl)*drift)",
	},
	{
		name: "observe-forgets-the-newest-term", catcher: apiTest("TestObservedTermsDoNotGoBack"), file: "election.go",
		old: "last, newest, yielded = h, max(newest, token), true",
		new: "last, newest, yielded = h, token, true",
	},
	{
		name: "observe-without-tokens-sees-nothing", catcher: apiTest("TestElectionObserveWithoutTokens"), file: "election.go",
		old: " && (a.Token != 0 || a.Claim == b.Claim)",
		new: "",
	},
	{
		name: "downgrade-before-the-reclaim", catcher: test("TestDowngradeWaitsForTheReclaim"), file: "internal/core/acquisition.go",
		old: "p.held && s.state.unreclaimed()",
		new: "p.held && s.state.unreclaimed() && false",
	},
	{
		name: "refused-mark-counts-as-left", catcher: test("TestOnceReportsAMarkThatADataLossPrevented"), file: "internal/core/release.go",
		old: "	if !notReclaimed {\n",
		new: "	if !notReclaimed || notReclaimed {\n",
	},
	{
		name: "mark-left-counts-as-lost", catcher: test("TestOnceFindsTheMarkThatItLeftBeforeAFailover"), file: "internal/core/release.go",
		old: "return err == nil && slices.ContainsFunc",
		new: "return err != nil && slices.ContainsFunc",
	},
	{
		name: "lockall-that-panics-keeps-names", catcher: test("TestPanicInLockAllLeavesNothingBehind"), file: "lockall.go",
		old: "			if !returned { // a hook or the store panicked\n",
		new: "			if !returned && false {\n",
	},
	{
		name: "ended-session-is-reclaimed", catcher: test("TestOnceReportsAMarkOfASessionThatEndedBeforeTheReclaim"), file: "internal/core/session.go",
		old: "s.state, s.cause = s.state.ended(), cause",
		new: "s.state, s.cause = sessionEnded, cause",
	},
	{
		name: "second-end-sets-the-cause", catcher: test("TestLateKeepAliveDoesNotChangeTheCauseOfTheEnd"), file: "internal/core/session.go",
		old: "	if s.cause != nil {\n		cause = s.cause",
		new: "	if s.cause != nil && false {\n		cause = s.cause",
	},
}
