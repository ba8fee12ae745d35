// SPDX-License-Identifier: Apache-2.0

package main

// changeMutants break what happens while something else is under way: a downgrade,
// an unlock, a close, a hook.
var changeMutants = []mutant{
	{
		name: "downgrade-weakened-last", catcher: test("TestDowngradeOfUnknownOutcomeIsAReader"), file: "internal/core/downgrade.go",
		old: "	g.claim.Terms = &weaker\n",
		new: `	if mutated("downgrade-weakened-last") {
		claim := g.claim
		claim.Terms = &weaker
		return &claim, nil
	}
	g.claim.Terms = &weaker
`,
		also: &edit{file: "internal/core/downgrade.go",
			old: "	// Granted as a reader or not known: local waiters ask the store either way.\n",
			new: `	if mutated("downgrade-weakened-last") {
		if err := l.reshape(ctx, claim); err != nil {
			return l.g.s.c.fail(Failure{Op: "downgrade", Name: l.Name(), Err: err})
		}
		l.g.s.sh.mu.Lock()
		l.g.claim.Terms = claim.Terms
		l.g.s.sh.mu.Unlock()
	}
`},
	},
	{
		name: "late-downgrade-not-tombstoned", catcher: test("TestUnlockDuringADowngradeLeavesNothing"), file: "internal/core/grant.go",
		old: "Tombstone: g.unsure || g.attempts > 0}",
		new: `Tombstone: g.unsure || g.attempts > 0 && !mutated("late-downgrade-not-tombstoned")}`,
	},
	{
		name: "deadline-only-moves-on", catcher: test("TestShorterTTLMovesTheDeadlineBack"), file: "internal/core/renewal.go",
		old: "	s.deadline.Store(int64(sent.Add(trust))) // even if the store has shortened the TTL\n",
		new: `	if end := int64(sent.Add(trust)); end > s.deadline.Load() || !mutated("deadline-only-moves-on") {
		s.deadline.Store(end)
	}
`,
	},
	{
		name: "hook-before-all-are-notified", catcher: test("TestSlowHookDoesNotDelayTheNotice"), file: "internal/core/session.go",
		old: "		notified = g.notify(cause, notified)\n",
		new: `		notified = g.notify(cause, notified)
		if mutated("hook-before-all-are-notified") {
			for _, l := range notified {
				l.emit(LeaseLost, cause)
			}
			notified = nil
		}
`,
	},
	{
		name: "hook-before-all-breaks-are-notified", catcher: test("TestSlowHookDoesNotDelayTheNoticeOfABreak"), file: "internal/core/renewal.go",
		old: "	loseAll(broken, broken, lost(ErrBroken), 0)\n",
		new: `	if mutated("hook-before-all-breaks-are-notified") {
		for i := range broken {
			loseAll(broken[i:i+1], broken[i:i+1], lost(ErrBroken), 0)
		}
	}
	loseAll(broken, broken, lost(ErrBroken), 0)
`,
	},
	{
		name: "hook-under-the-mutex", catcher: test("TestHooksDoNotBlockTheClient"), file: "internal/core/session.go",
		old: "	s.state, s.idleSince = sessionOpen, s.c.clock.Sent()\n",
		new: `	s.state, s.idleSince = sessionOpen, s.c.clock.Sent()
	if mutated("hook-under-the-mutex") {
		s.c.emitSession(s, SessionOpened, 0, nil)
	}
`,
	},
	{
		name: "definite-error-ends-a-withdrawal", catcher: test("TestWithdrawalIsRepeatedAfterADefiniteError"), file: "internal/core/cleanup.go",
		old: "	if err != nil {\n		r.failures++\n",
		new: `	if err != nil && (Transient(err) || errors.Is(err, driver.ErrReset) || !mutated("definite-error-ends-a-withdrawal")) {
		r.failures++
`,
	},
	{
		name: "gone-session-hammered", catcher: test("TestSessionThatIsGoneAgainIsNotHammered"), file: "internal/core/acquisition.go",
		old: "	case errors.Is(err, driver.ErrGone) && a.failures == 0:\n",
		new: `	case errors.Is(err, driver.ErrGone) && mutated("gone-session-hammered"):
		return nil
	case errors.Is(err, driver.ErrGone) && a.failures == 0:
`,
	},
	{
		// A goroutine that is paused between check and act acts on an outdated answer.
		name: "idle-session-checked-then-ended", catcher: test("TestSessionIsNotLetGoUnderALock"), file: "internal/core/session.go",
		old: "func (s *session) retire() bool {\n",
		new: `func (s *session) retire() bool {
	if mutated("idle-session-checked-then-ended") {
		s.sh.mu.Lock()
		idle := s.grants == nil && s.users == 0 && s.cleanup.idle() && s.c.clock.Sent().Sub(s.idleSince) >= s.trusted()
		s.sh.mu.Unlock()
		if idle {
			time.Sleep(s.trusted() / 10)
			s.end(ErrClosed)
		}
		return idle
	}
`,
	},
}

// ownMutants break the ends of leases and what is built upon them.
var ownMutants = []mutant{
	{
		name: "fixed-lease-notified-at-its-end", catcher: test("TestHolderOfAMaxHoldIsNotifiedAMarginBefore"), file: "internal/core/grant.go",
		old: "func (g *grant) margin(most time.Duration) time.Duration { return min(most, g.claim.Terms.MaxHold/10) }",
		new: `func (g *grant) margin(most time.Duration) time.Duration {
	if mutated("fixed-lease-notified-at-its-end") {
		return 1
	}
	return min(most, g.claim.Terms.MaxHold/10)
}`,
	},
	{
		name: "late-grants-without-end", catcher: test("TestMaxHoldShorterThanTheRoundTripIsAnError"), file: "internal/core/acquisition.go",
		old: "				if a.lateGrants == maxLateGrants {",
		new: `				if a.lateGrants == maxLateGrants && !mutated("late-grants-without-end") {`,
	},
	{
		name: "reclaim-takes-the-mark-away", catcher: test("TestOnceMarkSurvivesADataLoss"), file: "internal/core/reclaim.go",
		old: "			g.queueWithdrawalLocked()\n",
		new: `			if mutated("reclaim-takes-the-mark-away") {
				g.keepFor = 0
			}
			g.queueWithdrawalLocked()
`,
	},
	{
		name: "names-not-escaped", catcher: apiTest("TestNamesOfOccurrencesDoNotCollide"), file: "once.go",
		old: "	return strings.NewReplacer(",
		new: `	if mutated("names-not-escaped") {
		return name
	}
	return strings.NewReplacer(`,
	},
	{
		name: "occurrence-runs-inside-itself", catcher: apiTest("TestNestedOnceDoesNotRunTwice"), file: "mutex.go",
		old: "	m.h.sole = true\n",
		new: "",
	},
	{
		name: "leader-beside-itself", catcher: apiTest("TestElectionDoesNotReenter"), file: "internal/core/acquisition.go",
		old: "	if !how.Sole {\n",
		new: "	if !how.Sole || !how.Try {\n",
	},
	{
		name: "attempt-outlives-close", catcher: test("TestCloseDoesNotWaitForASlowAttempt"), file: "internal/core/session.go",
		old: "	s.attempts = callctx.New(s.ctx, sh.c.opts.CallTimeout)\n",
		new: `	s.attempts = callctx.New(s.ctx, sh.c.opts.CallTimeout)
	if mutated("attempt-outlives-close") {
		s.attempts = callctx.New(context.Background(), sh.c.opts.CallTimeout)
	}
`,
	},
	{
		name: "unlock-lost-by-close", catcher: test("TestUnlockDuringCloseIsNoLoss"), file: "internal/core/release.go",
		old: "		if w.KeepFor == 0 {\n			return nil\n",
		new: "		if false {\n			return nil\n",
	},
	{
		name: "close-says-unavailable", catcher: test("TestTryLockDuringCloseReturnsClosed"), file: "internal/core/acquisition.go",
		old: "	return a.sh.closed\n",
		new: `	return a.sh.closed && !mutated("close-says-unavailable")
`,
		also: &edit{file: "internal/core/session.go",
			old: "		if s.ctx.Err() != nil {\n			err = context.Cause(s.ctx)\n		}\n",
			new: `		if s.ctx.Err() != nil && !mutated("close-says-unavailable") {
			err = context.Cause(s.ctx)
		}
`},
	},
}
