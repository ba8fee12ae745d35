// SPDX-License-Identifier: Apache-2.0

package main

// waitMutants break waiting for a lock, and the ends of a client.
var waitMutants = []mutant{
	{
		name: "push-with-maxhold-taken", catcher: test("TestMaxHoldEnds"), file: "internal/core/acquisition.go",
		old: "			if a.terms.MaxHold > 0 {\n				break // attempt again, to learn",
		new: "			if false {\n				break // attempt again, to learn",
	},
	{
		name: "push-after-a-reopen-taken", catcher: test("TestGrantPushedAfterARestartIsNotDroppedByTheReclaim"), file: "internal/core/acquisition.go",
		old: "			ans.Outcome, ans.sent = pushed, a.c.clock.Sent()\n",
		new: "			ans.Outcome, ans.sent, ans.generation = pushed, a.c.clock.Sent(), s.generation\n",
		also: &edit{file: "internal/core/acquisition.go",
			old: "	if reopened {\n",
			new: "	if false && reopened {\n"},
	},
	{
		name: "absent-not-withdrawn", catcher: test("TestClaimThatWasOverIsWithdrawn"), file: "internal/core/acquisition.go",
		old: `		case driver.Absent: // granted and ended before the client knew: ask again
			a.disown(p).withdraw()
`,
		new: `		case driver.Absent: // granted and ended before the client knew: ask again
			a.disown(p)
`,
	},
	{
		name: "absent-not-disowned", catcher: test("TestClaimThatWasOverIsWithdrawn"), file: "internal/core/acquisition.go",
		old: `		case driver.Absent: // granted and ended before the client knew: ask again
			a.disown(p).withdraw()
`,
		new: "		case driver.Absent: // granted and ended before the client knew: ask again\n",
	},
	{
		name: "late-grant-not-withdrawn", catcher: test("TestSpentClaimsAreWithdrawn"), file: "internal/core/acquisition.go",
		old: "				a.disown(p).withdraw()\n				a.lateGrants++",
		new: "				a.disown(p)\n				a.lateGrants++",
	},
	{
		name: "retry-no-resume", catcher: test("TestLockThatHearsOfALossResumesAtOnce"), file: "internal/core/acquisition.go",
		old: "		a.wakeSession()\n	case !Transient",
		new: "	case !Transient",
	},
	{
		name: "bad-not-reset", catcher: test("TestSilenceEndsTheWaitAfterPatience"), file: "internal/core/acquisition.go",
		old: "			a.failures = 0\n",
		new: "",
	},
	{
		name: "judge-no-backoff", catcher: test("TestCallsArePaced"), file: "internal/core/acquisition.go",
		old: "timing.Backoff(a.failures, a.c.opts.TTL/500, a.c.opts.TTL/15, rand.Float64())",
		new: "time.Millisecond",
	},
	{
		name: "claim-of-old-session", catcher: test("TestSuspendCountsAsTime"), file: "internal/core/acquisition.go",
		old: " && a.q.sent.s == s {",
		new: " {",
	},
	{
		name: "passon-lease-dropped", catcher: test("TestWaiterThatGivesUpPassesTheLockOn"), file: "internal/core/acquisition.go",
		old: "		a.c.Background(func() { _ = t.lease.Unlock(context.Background(), 0) })\n",
		new: "",
	},
	{
		name: "poll-without-pause", catcher: test("TestCallsArePaced"), file: "internal/core/acquisition.go",
		old: "Sleep(until, timing.Poll(polls, s.c.opts.TTL, rand.Float64()))",
		new: "Sleep(until, min(s.trusted(), 1e6))",
	},
	{
		name: "reentry-in-the-queue", catcher: test("TestReentryByOwner"), file: "internal/core/acquisition.go",
		old: `		sh.tidyLocked(q)
		q = &queue{name: name}
`,
		new: "",
	},
	{
		name: "baton-keeps-other-config", catcher: apiTest("TestSemaphoreWaiterThatGivesUpBlocksNoOther"), file: "internal/core/shard.go",
		old: "(next == nil || !sameTerms(p.claim.Terms, next.terms))",
		new: "next == nil",
	},
	{
		name: "baton-drops-always", catcher: test("TestWaiterThatGivesUpPassesTheLockOn"), file: "internal/core/shard.go",
		old: "p != nil && (next == nil || !sameTerms(p.claim.Terms, next.terms))",
		new: "p != nil",
	},
	{
		name: "try-error-not-withdrawn", catcher: test("TestGivingUpWithALostReplyLeavesNothingBehind"), file: "internal/core/try.go",
		old: `	if err != nil {
		s.endIfGone(err)
		return nil, err
	}
	if ans.State`,
		new: `	if err != nil {
		s.endIfGone(err)
		busy = true
		return nil, err
	}
	if ans.State`,
	},
	{
		name: "try-unadmitted-not-withdrawn", catcher: test("TestTryThatCameTooLateIsWithdrawn"), file: "internal/core/try.go",
		old: "	if ans.State == driver.Granted {\n		return a.admit",
		new: `	if ans.State == driver.Granted {
		busy = true
		return a.admit`,
	},
	{
		name: "try-gone-not-ended", catcher: test("TestSessionThatTheStoreEndedIsReplaced"), file: "internal/core/try.go",
		old: `		s.endIfGone(err)
		return nil, err
`,
		new: "		return nil, err\n",
	},
	{
		name: "try-reader-while-writer-waits", catcher: test("TestTryIsAnsweredLocallyWhileTheClientHolds"), file: "internal/core/try.go",
		old: "	case q.exclusive != nil:\n		return &Busy",
		new: "	case q.exclusive != nil && t.Mode == driver.Exclusive:\n		return &Busy",
	},
	{
		name: "lines-not-tidied", catcher: test("TestDefiniteErrorEndsTheWait"), file: "internal/core/shard.go",
		old: "	if q.idle() && sh.queues[q.name] == q {",
		new: "	if false {",
	},
	{
		name: "enter-no-users", catcher: apiTest("TestHooksSeeEveryTransition"), file: "internal/core/shard.go",
		old: "			s.users++\n",
		new: "",
	},
	{
		name: "close-leaves-waiters", catcher: test("TestCloseNotifiesHoldersAndWaiters"), file: "internal/core/shard.go",
		old: "			w.ready <- turn{err: ErrClosed}\n",
		new: "			_ = w\n",
	},
	{
		name: "close-does-not-wait", catcher: test("TestSilentWithdrawalDelaysNoOther"), file: "internal/core/client.go",
		old: "		c.wg.Wait()\n",
		new: "",
	},
}
