// SPDX-License-Identifier: Apache-2.0

package main

// queueMutants break waiting, handoff, re-entry and clean-up in the core.
var queueMutants = []mutant{
	{
		name: "wake-consumed-by-a-canceled-waiter", catcher: test("TestWaiterThatGivesUpPassesTheLockOn"), file: "internal/core/acquisition.go",
		old: "		a.passOn(<-w.ready)\n",
		new: `		t := <-w.ready
		if !mutated("wake-consumed-by-a-canceled-waiter") {
			a.passOn(t)
		}
`,
	},
	{
		name: "no-poll-besides-the-push", catcher: test("TestLostPushCostsOnePoll"), sim: "stuck", file: "internal/core/acquisition.go",
		old: "	until, cancel := context.WithTimeout(ctx, timing.HintedPoll(",
		new: `	if mutated("no-poll-besides-the-push") {
		least = 1000 * s.c.opts.TTL
		last.PollAfter, s.c.opts.TTL = least, least
	}
	until, cancel := context.WithTimeout(ctx, timing.HintedPoll(`,
	},
	{
		name: "waiter-ignores-its-dead-session", catcher: test("TestWaiterGetsANewSessionAtOnce"), file: "internal/core/acquisition.go",
		old: "	stop := context.AfterFunc(s.ctx, cancel) // a waiter's own session may die\n",
		new: `	stop := context.AfterFunc(s.ctx, func() {
		if !mutated("waiter-ignores-its-dead-session") {
			cancel()
		}
	})
`,
	},
	{
		name: "claim-left-behind", catcher: test("TestGivingUpWhileQueuedLeavesNothingBehind"), sim: "wakeup", file: "internal/core/acquisition.go",
		old: "	if p.attempted {\n		p.s.queue",
		new: "	if p.attempted && !mutated(\"claim-left-behind\") {\n		p.s.queue",
	},
	{
		name: "late-attempt-not-tombstoned", catcher: test("TestLateAttemptIsNotGranted"), file: "internal/core/acquisition.go",
		old: "	p.unsure = unsure || err != nil && Transient(err)\n",
		new: `	p.unsure = (unsure || err != nil && Transient(err)) && !mutated("late-attempt-not-tombstoned")
`,
	},
	{
		name: "clean-up-on-the-canceled-context", catcher: test("TestUnlockOnACanceledContext"), file: "internal/core/release.go",
		old: "	if ctx.Err() != nil {\n",
		new: `	if ctx.Err() != nil && !mutated("clean-up-on-the-canceled-context") {
`,
	},
	{
		name: "unlock-cut-by-itself", catcher: test("TestUnlockUnderTheContextOfItsLease"), file: "internal/core/release.go",
		old: "	if carries(ctx, l) {\n",
		new: `	if carries(ctx, l) && !mutated("unlock-cut-by-itself") {
`,
	},
	{
		name: "unlock-ignores-its-context", catcher: test("TestUnlockWaitsAsLongAsItsContextAllows"), file: "internal/core/release.go",
		old: "	found, moved, err := g.withdraw(ctx, w)\n",
		new: `	if mutated("unlock-ignores-its-context") {
		ctx = context.WithoutCancel(ctx)
	}
	found, moved, err := g.withdraw(ctx, w)
`,
	},
	{
		name: "resigned-lead-ends-run", catcher: apiTest("TestElectionStepsDownFromInside"), file: "election.go",
		old: ", errors.Is(err, ErrResigned):\n",
		new: `, errors.Is(err, ErrResigned) && !mutated("resigned-lead-ends-run"):
`,
	},
	{
		name: "unlock-not-repeated", catcher: test("TestUnconfirmedUnlockIsRepeated"), sim: "wakeup", file: "internal/core/cleanup.go",
		old: "	s.cleanup.first = append(s.cleanup.first, r)\n",
		new: `	if mutated("unlock-not-repeated") {
		return
	}
	s.cleanup.first = append(s.cleanup.first, r)
`,
	},
	{
		name: "stale-unlock-hits-the-successor", catcher: test("TestStaleUnlockTouchesNoOtherHolder"), sim: "overlap", file: "internal/core/release.go",
		old: "	if l.state.get() != leaseHeld {\n		g.s.sh.mu.Unlock()\n		return l.unmarked(l.unlockAgain(ctx), keep)\n	}",
		new: `	if l.state.get() != leaseHeld && !mutated("stale-unlock-hits-the-successor") {
		g.s.sh.mu.Unlock()
		return l.unmarked(l.unlockAgain(ctx), keep)
	}
	if mutated("stale-unlock-hits-the-successor") {
		l.state.set(leaseHeld)
		if q := g.s.sh.queues[l.Name()]; q != nil && q.exclusive != nil {
			g = q.exclusive // by name, whichever claim has it now
			g.leases = nil
		}
	}`,
	},
	{
		name: "re-entry-without-the-context", catcher: test("TestNoReentryWithoutTheContext"), sim: "overlap", file: "internal/core/acquisition.go",
		old: "	w := c.newWaiter(terms)\n	q.push(w)",
		new: `	if g := q.exclusive; g != nil && mutated("re-entry-without-the-context") {
		defer sh.mu.Unlock()
		return g.newLeaseLocked(ctx, g.token, g.granted), nil
	}
	w := c.newWaiter(terms)
	q.push(w)`,
	},
	{
		name: "handoff-with-the-same-token", catcher: test("TestLocalHandoffHasAFreshToken"), sim: "tokens", file: "internal/core/grant.go",
		old: "	g.index++\n",
		new: `	if !mutated("handoff-with-the-same-token") {
		g.index++
	}
`,
	},
	{
		name: "handoff-without-end", catcher: test("TestLocalHandoffIsBoundedInNumber"), file: "internal/core/release.go",
		old: "		g.tokenLeft() && now",
		new: `		(g.tokenLeft() || mutated("handoff-without-end")) && now`,
	},
	{
		name: "reader-overtakes-a-writer", catcher: apiTest("TestWriterIsNotStarved"), file: "internal/core/acquisition.go",
		old: "	a := &acquisition{c: c,",
		new: `	if mutated("reader-overtakes-a-writer") && terms.Mode == driver.Shared {
		if s := sh.session; s != nil {
			for g := s.grants; g != nil; g = g.next { // any reader here lets us in
				if g.claim.Name == name && g.claim.Terms.Mode == driver.Shared && g.leases != nil {
					defer sh.mu.Unlock()
					return g.newLeaseLocked(ctx, g.nextTokenLocked(), g.granted), nil
				}
			}
		}
	}
	a := &acquisition{c: c,`,
	},
	{
		name: "all-locks-in-the-order-given", catcher: apiTest("TestLockAllDoesNotDeadlock"), file: "lockall.go",
		old: "	sorted := slices.Compact(slices.Sorted(slices.Values(names)))\n",
		new: `	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	if mutated("all-locks-in-the-order-given") {
		sorted = names
	}
`,
	},
}
