// SPDX-License-Identifier: Apache-2.0

package main

// changeCages break what happens while something else is under way: a downgrade,
// an unlock, a close, a hook.
var changeCages = []cage{
	{
		name: "downgrade-weakened-last", catcher: test("TestDowngradeOfUnknownOutcomeIsAReader"), file: "rwmutex.go",
		old: "	g.claim.Terms = &weaker\n",
		new: `	if caged("downgrade-weakened-last") {
		claim := g.claim
		claim.Terms = &weaker
		return &claim, nil
	}
	g.claim.Terms = &weaker
`,
		also: &edit{file: "rwmutex.go",
			old: "	// Granted as a reader or not known: local waiters ask the store either way.\n",
			new: `	if caged("downgrade-weakened-last") {
		if err != nil {
			return fail(err)
		}
		l.g.s.sh.mu.Lock()
		l.g.claim.Terms = claim.Terms
		l.g.s.sh.mu.Unlock()
	}
`},
	},
	{
		name: "late-downgrade-not-buried", catcher: test("TestUnlockDuringADowngradeLeavesNothing"), file: "rwmutex.go",
		old: "	g.unsure = true\n",
		new: `	g.unsure = !caged("late-downgrade-not-buried")
`,
	},
	{
		name: "deadline-only-moves-on", catcher: test("TestShorterTTLMovesTheDeadlineBack"), file: "session.go",
		old: "	s.deadline.Store(int64(sent.Add(trust))) // also if the store has shortened the TTL\n",
		new: `	if end := int64(sent.Add(trust)); end > s.deadline.Load() || !caged("deadline-only-moves-on") {
		s.deadline.Store(end)
	}
`,
	},
	{
		name: "hook-before-all-are-told", catcher: test("TestSlowHookDoesNotDelayTheTelling"), file: "session.go",
		old: "		told = g.tell(cause, told)\n",
		new: `		told = g.tell(cause, told)
		if caged("hook-before-all-are-told") {
			for _, l := range told {
				l.emit(LeaseLost, cause)
			}
			told = nil
		}
`,
	},
	{
		name: "hook-before-all-breaks-are-told", catcher: test("TestSlowHookDoesNotDelayTheTellingOfABreak"), file: "session.go",
		old: "	loseAll(broken, broken, lost(ErrBroken))\n",
		new: `	if caged("hook-before-all-breaks-are-told") {
		for i := range broken {
			loseAll(broken[i:i+1], broken[i:i+1], lost(ErrBroken))
		}
	}
	loseAll(broken, broken, lost(ErrBroken))
`,
	},
	{
		name: "hook-under-the-mutex", catcher: test("TestHooksDoNotBlockTheClient"), file: "session.go",
		old: "	s.open, s.idleSince = true, s.c.clock.Sent()\n",
		new: `	s.open, s.idleSince = true, s.c.clock.Sent()
	if caged("hook-under-the-mutex") {
		s.c.emitSession(s, SessionOpened, 0, nil)
	}
`,
	},
	{
		name: "definite-error-ends-a-withdrawal", catcher: test("TestWithdrawalIsRepeatedAfterADefiniteError"), file: "settle.go",
		old: "		s.debris = s.debris[1:]\n		if err != nil {\n",
		new: `		s.debris = s.debris[1:]
		if err != nil && (transient(err) || errors.Is(err, driver.ErrForgotten) || !caged("definite-error-ends-a-withdrawal")) {
`,
	},
	{
		name: "gone-session-hammered", catcher: test("TestSessionThatIsGoneAgainIsNotHammered"), file: "acquire.go",
		old: "	case errors.Is(err, driver.ErrGone) && d.bad == 0:\n",
		new: `	case errors.Is(err, driver.ErrGone) && caged("gone-session-hammered"):
		return nil
	case errors.Is(err, driver.ErrGone) && d.bad == 0:
`,
	},
	{
		// Whoever is paused in the gap acts on what was so before.
		name: "idle-session-checked-then-ended", catcher: test("TestSessionIsNotLetGoUnderALock"), file: "session.go",
		old: "func (s *session) retire() bool {\n",
		new: `func (s *session) retire() bool {
	if caged("idle-session-checked-then-ended") {
		s.sh.mu.Lock()
		idle := s.grants == nil && s.users == 0 && !s.settling && s.c.clock.Sent().Sub(s.idleSince) >= s.trusted()
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

// ownCages break the ends of leases and what is built upon them.
var ownCages = []cage{
	{
		name: "fixed-lease-told-at-its-end", catcher: test("TestHolderOfAFixedLeaseIsToldAMarginBefore"), file: "grant.go",
		old: "func (g *grant) margin(most time.Duration) time.Duration { return min(most, g.claim.Terms.MaxHold/10) }",
		new: `func (g *grant) margin(most time.Duration) time.Duration {
	if caged("fixed-lease-told-at-its-end") {
		return 1
	}
	return min(most, g.claim.Terms.MaxHold/10)
}`,
	},
	{
		name: "spent-lease-without-end", catcher: test("TestFixedLeaseShorterThanTheRoundTripIsAnError"), file: "acquire.go",
		old: "				if d.spent++; d.spent == maxSpent {",
		new: `				if d.spent++; d.spent == maxSpent && !caged("spent-lease-without-end") {`,
	},
	{
		name: "reclaim-takes-the-mark-away", catcher: test("TestOnceMarkSurvivesALossOfMemory"), file: "resume.go",
		old: "			if g.parting != nil {",
		new: `			if g.parting != nil && !caged("reclaim-takes-the-mark-away") {`,
	},
	{
		name: "names-not-escaped", catcher: test("TestNamesOfOccurrencesDoNotCollide"), file: "once.go",
		old: "	return strings.NewReplacer(",
		new: `	if caged("names-not-escaped") {
		return name
	}
	return strings.NewReplacer(`,
	},
	{
		name: "occurrence-runs-inside-itself", catcher: test("TestNestedOnceDoesNotRunTwice"), file: "once.go",
		old: "	bare := context.WithValue(ctx, leaseKey{}, (*leaseNode)(nil))\n",
		new: `	bare := context.WithValue(ctx, leaseKey{}, (*leaseNode)(nil))
	if caged("occurrence-runs-inside-itself") {
		bare = ctx
	}
`,
	},
	{
		name: "latch-armed-over-a-reader", catcher: test("TestLatchIsArmedAgainBesideAnOldWaiter"), file: "latch.go",
		old: "		if !errors.As(err, &busy) || len(busy.Holders) > 0 && busy.Holders[0].Kept {",
		new: `		if !errors.As(err, &busy) || len(busy.Holders) > 0 && busy.Holders[0].Kept || caged("latch-armed-over-a-reader") {`,
	},
	{
		name: "attempt-outlives-close", catcher: test("TestCloseDoesNotWaitForASlowAttempt"), file: "session.go",
		old: "	s.attempts.parent, s.attempts.timeout = s.ctx, sh.c.opts.CallTimeout\n",
		new: `	s.attempts.parent, s.attempts.timeout = s.ctx, sh.c.opts.CallTimeout
	if caged("attempt-outlives-close") {
		s.attempts.parent = context.Background()
	}
`,
	},
	{
		name: "unlock-lost-by-close", catcher: test("TestUnlockDuringCloseIsNoLoss"), file: "release.go",
		old: "	case errors.Is(err, driver.ErrGone) && errors.Is(context.Cause(s.ctx), ErrClosed):\n",
		new: `	case errors.Is(err, driver.ErrGone) && errors.Is(context.Cause(s.ctx), ErrClosed) && !caged("unlock-lost-by-close"):
`,
	},
	{
		name: "close-says-unavailable", catcher: test("TestTryLockDuringCloseSaysClosed"), file: "acquire.go",
		old: "	return d.sh.closed\n",
		new: `	return d.sh.closed && !caged("close-says-unavailable")
`,
		also: &edit{file: "session.go",
			old: "		if s.ctx.Err() != nil {\n			err = context.Cause(s.ctx)\n		}\n",
			new: `		if s.ctx.Err() != nil && !caged("close-says-unavailable") {
			err = context.Cause(s.ctx)
		}
`},
	},
}
