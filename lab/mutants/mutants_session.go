// SPDX-License-Identifier: Apache-2.0

package main

// sessionMutants break sessions, leases and what comes after a loss of data.
var sessionMutants = []mutant{
	{
		name: "suspend-blamed-on-the-store", catcher: test("TestReasonAfterASuspendIsThatOfTheDeadline"), file: "internal/core/session.go",
		old: "		why = ErrUnrenewed\n",
		new: "",
	},
	{
		name: "fixed-end-withdrawn-at-telling", catcher: test("TestMaxHoldEnds"), file: "internal/core/session.go",
		old: "			ended = append(ended, g)\n",
		new: `			ended = append(ended, g)
			over = append(over, g)
			continue
`,
	},
	{
		name: "no-suspend-tick", catcher: test("TestNoHandoffAfterTheDeadline"), file: "internal/core/session.go",
		old: "d := min(clock.Instant(s.deadline.Load()).Sub(now), suspendTick)",
		new: "d := clock.Instant(s.deadline.Load()).Sub(now)",
	},
	{
		name: "retire-while-settling", catcher: test("TestMarkIsLeftHoweverLongItTakes"), file: "internal/core/session.go",
		old: "s.users == 0 && s.cleanup.idle() && s.c",
		new: "s.users == 0 && s.c",
	},
	{
		name: "retire-with-users", catcher: test("TestSessionOfAWaiterIsNotLetGo"), file: "internal/core/session.go",
		old: "s.unusedLocked() && s.users == 0 && s.cleanup.idle()",
		new: "s.unusedLocked() && s.cleanup.idle()",
	},
	{
		name: "leave-without-idleSince", catcher: test("TestSessionInUseWithoutLeasesIsNotLetGo"), file: "internal/core/session.go",
		old: `	s.users--
	s.idleSince = s.c.clock.Sent()
`,
		new: "	s.users--\n",
	},
	{
		name: "farewell-at-once", catcher: test("TestLostSessionIsNotGivenBackBeforeItsMargin"), file: "internal/core/session.go",
		old: "t := time.NewTimer(s.c.opts.Margin)",
		new: "t := time.NewTimer(0)",
	},
	{
		name: "try-timeout-eats-all", catcher: test("TestFailedRenewalIsTriedAgain"), file: "internal/core/renewal.go",
		old: "timing.TryTimeout(s.trusted(), left)",
		new: "left",
	},
	{
		name: "start-ignores-closed", catcher: test("TestCloseDuringAnOpenLeavesNoSession"), file: "internal/core/session.go",
		old: `	if s.sh.closed {
		return ErrClosed
	}
`,
		new: "",
	},
	{
		name: "end-keeps-deadline", catcher: test("TestEndedSessionIsNotTrusted"), file: "internal/core/session.go",
		old: "	s.deadline.Store(0)\n",
		new: "",
	},
	{
		name: "renewed-without-timer", catcher: test("TestDeadlineThatMovedBackIsMetExactly"), file: "internal/core/renewal.go",
		old: `	if s.timer != nil {
		s.timer.Reset(s.untilCheckLocked(s.c.clock.Now()))
	}
`,
		new: "",
	},
	{
		name: "only-first-break-notified", catcher: test("TestSlowHookDoesNotDelayTheNoticeOfABreak"), file: "internal/core/renewal.go",
		old: "			broken = append(broken, g)\n",
		new: `			broken = append(broken, g)
			break
`,
	},
	{
		name: "lost-data-renewed-before-reclaim", catcher: test("TestInterruptedReclaimIsRepeated"), file: "internal/core/renewal.go",
		old: "	if !lostData {\n",
		new: "	if !lostData || s.state == sessionResuming {\n",
	},
	{
		name: "definite-renew-error-retried", catcher: test("TestRefusedRenewalEndsTheSession"), file: "internal/core/renewal.go",
		old: `		case errors.Is(err, driver.ErrRefused):
			s.end(lost(ErrEnded, err))
			return sent, false
`,
		new: "",
	},
	{
		name: "first-renewal-not-spread", catcher: test("TestSessionsOpenedTogetherDoNotRenewTogether"), file: "internal/core/renewal.go",
		old: "	next := s.spread(clock.Instant(s.deadline.Load()).Add(-s.trusted()))",
		new: "	next := clock.Instant(s.deadline.Load()).Add(timing.RenewAfter(s.trusted(), rand.Float64()) - s.trusted())",
	},
	{
		name: "renewal-after-a-failure-not-spread", catcher: test("TestSessionsDoNotRenewTogetherAfterAnOutage"), file: "internal/core/renewal.go",
		old: "			next = s.spread(sent)",
		new: "			next = sent.Add(timing.RenewAfter(s.trusted(), rand.Float64()))",
	},
	{
		name: "late-renewals-stay-together", catcher: test("TestSessionsDoNotRenewTogetherAfterAStall"), file: "internal/core/renewal.go",
		old: "		next = min(next, sent).Add(",
		new: "		next = sent.Add(",
	},
	{
		name: "renew-no-backoff", catcher: test("TestCallsArePaced"), file: "internal/core/renewal.go",
		old: "timing.Backoff(failures, trust/100, trust/12, rand.Float64())",
		new: "min(trust, time.Millisecond)",
	},
	{
		name: "failed-open-not-closed", catcher: test("TestCloseGivesLocksBack"), file: "internal/core/session.go",
		old: `		if opened {
			s.leaveStore()
		}
`,
		new: "		_ = opened\n",
	},
	{
		name: "detach-leaves-heap", catcher: test("TestReleasedLeasesWithAnEndAreDropped"), file: "internal/core/grant.go",
		old: `	if g.nextCheck != 0 && int(g.heapIndex) < len(g.s.deadlines) && g.s.deadlines[g.heapIndex] == g {
		heap.Remove(&g.s.deadlines, int(g.heapIndex))
	}
`,
		new: "	_ = heap.Remove\n",
	},
	{
		name: "detach-without-idleSince", catcher: test("TestSessionOfALeaseThatEndedIsNotLetGoAtOnce"), file: "internal/core/grant.go",
		old: "	g.s.idleSince = g.s.c.clock.Sent()\n",
		new: "",
	},
	{
		name: "lost-not-tombstoned", catcher: test("TestLateAttemptOfALostLeaseIsNotGranted"), file: "internal/core/grant.go",
		old: "KeepFor: g.keepFor, Tombstone: g.unsure || g.attempts > 0}",
		new: "KeepFor: g.keepFor}",
	},
	{
		name: "heap-swap-no-index", catcher: test("TestReleasedLeasesWithAnEndAreDropped"), file: "internal/core/session.go",
		old: "	h[i].heapIndex, h[j].heapIndex = int32(i), int32(j)\n",
		new: "",
	},
	{
		name: "attach-no-timer-reset", catcher: test("TestShortMaxHoldEndsExactly"), file: "internal/core/grant.go",
		old: "		g.s.timer.Reset(g.s.untilCheckLocked(g.s.c.clock.Now()))\n",
		new: "",
	},
	{
		name: "settle-ignores-gone", catcher: test("TestGoneHeardByTheCleanupEndsTheSession"), file: "internal/core/cleanup.go",
		old: "		s.endIfGone(err)\n",
		new: "",
	},
	{
		name: "settle-no-backoff", catcher: test("TestCallsArePaced"), file: "internal/core/cleanup.go",
		old: "timing.Backoff(r.failures, s.trusted()/100, s.trusted()/12, rand.Float64())",
		new: "time.Millisecond",
	},
	{
		name: "settle-no-resume", catcher: test("TestWithdrawalThatHearsOfALossResumesAtOnce"), file: "internal/core/cleanup.go",
		old: "			s.renewNow()\n",
		new: "",
	},
	{
		name: "no-reclaim-without-grants", catcher: checker("stuck"), file: "internal/core/reclaim.go",
		old: "for first := true; first || len(held) > 0; first = false {",
		new: "for len(held) > 0 {",
	},
	{
		name: "never-last", catcher: test("TestUnlockThatTheStoreLostIsRepeated"), file: "internal/core/reclaim.go",
		old: "n == len(held)); err",
		new: "false); err",
	},
	{
		name: "always-last", catcher: test("TestRememberedLeasesSurviveARestart"), file: "internal/core/reclaim.go",
		old: "n == len(held)); err",
		new: "true); err",
	},
	{
		name: "reclaim-unsure-dropped", catcher: test("TestLateReclaimIsNotGranted"), file: "internal/core/reclaim.go",
		old: "		g.unsure = g.unsure || err != nil && Transient(err)\n",
		new: "",
	},
	{
		name: "reclaimed-after-unlock-stays", catcher: test("TestUnlockDuringAReclaimIsFinal"), file: "internal/core/reclaim.go",
		old: "			g.queueWithdrawalLocked()\n",
		new: "			_ = g\n",
	},
	{
		name: "reclaim-local-token", catcher: test("TestReclaimedTokenIsTheStores"), file: "internal/core/reclaim.go",
		old: "Token: g.token})",
		new: "Token: g.token + driver.Token(g.index)})",
	},
	{
		name: "resume-deadline-at-open", catcher: test("TestReopenedSessionIsNotTrustedBeforeItsReclaim"), file: "internal/core/reclaim.go",
		old: `	s.drv = drv
	s.generation++
`,
		new: `	s.drv = drv
	s.generation++
	_ = s.renewedLocked(sent, renewal)
`,
	},
}
