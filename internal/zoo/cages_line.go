// SPDX-License-Identifier: Apache-2.0

package main

// lineCages break waiting, hand-over, re-entry and clean-up in the core.
var lineCages = []cage{
	{
		name: "wake-consumed-by-a-cancelled-waiter", catcher: test("TestWaiterThatGivesUpPassesItsTurnOn"), file: "acquire.go",
		old: "		d.passOn(<-w.ready)\n",
		new: `		t := <-w.ready
		if !caged("wake-consumed-by-a-cancelled-waiter") {
			d.passOn(t)
		}
`,
	},
	{
		name: "no-look-besides-the-push", catcher: test("TestLostPushCostsOneLook"), sim: "stuck", file: "acquire.go",
		old: "	until, cancel := context.WithTimeout(ctx, timing.Look(",
		new: `	if caged("no-look-besides-the-push") {
		least = 1000 * s.c.opts.TTL
		out.LookAfter, s.c.opts.TTL = least, least
	}
	until, cancel := context.WithTimeout(ctx, timing.Look(`,
	},
	{
		name: "waiter-ignores-its-dead-session", catcher: test("TestWaiterGetsANewSessionAtOnce"), file: "acquire.go",
		old: "	stop := context.AfterFunc(s.ctx, cancel) // a waiter's own session may die\n",
		new: `	stop := context.AfterFunc(s.ctx, func() {
		if !caged("waiter-ignores-its-dead-session") {
			cancel()
		}
	})
`,
	},
	{
		name: "claim-left-behind", catcher: test("TestGivingUpWhileQueuedLeavesNothingBehind"), sim: "wakeup", file: "settle.go",
		old: "	if p == nil || !p.sent {",
		new: `	if p == nil || !p.sent || caged("claim-left-behind") {`,
	},
	{
		name: "late-attempt-not-buried", catcher: test("TestLateAttemptIsNotGranted"), file: "acquire.go",
		old: "	if err != nil && transient(err) {\n		p.unsure = true\n	}",
		new: `	if err != nil && transient(err) {
		p.unsure = !caged("late-attempt-not-buried")
	}`,
	},
	{
		name: "clean-up-on-the-cancelled-context", catcher: test("TestUnlockOnACancelledContext"), file: "settle.go",
		old: "	call, over := s.withdrawals.context(context.WithoutCancel(ctx))\n",
		new: `	if !caged("clean-up-on-the-cancelled-context") {
		ctx = context.WithoutCancel(ctx)
	}
	call, over := s.withdrawals.context(ctx)
`,
	},
	{
		name: "unlock-not-repeated", catcher: test("TestUnconfirmedUnlockIsRepeated"), sim: "wakeup", file: "settle.go",
		old: "	s.debris = append(s.debris, w)\n",
		new: `	if caged("unlock-not-repeated") {
		return
	}
	s.debris = append(s.debris, w)
`,
	},
	{
		name: "stale-unlock-hits-the-successor", catcher: test("TestStaleUnlockTouchesNobody"), sim: "overlap", file: "lease.go",
		old: "	if l.state.Load() != leaseHeld {\n		defer g.s.sh.mu.Unlock()\n		return l.answer()\n	}",
		new: `	if l.state.Load() != leaseHeld && !caged("stale-unlock-hits-the-successor") {
		defer g.s.sh.mu.Unlock()
		return l.answer()
	}
	if caged("stale-unlock-hits-the-successor") {
		l.state.Store(leaseHeld)
		if ln := g.s.sh.lines[l.Name()]; ln != nil && ln.exclusive != nil {
			g = ln.exclusive // by name, whoever has it now
			g.leases = nil
		}
	}`,
	},
	{
		name: "re-entry-without-the-context", catcher: test("TestNoReentryWithoutTheContext"), sim: "overlap", file: "acquire.go",
		old: "	w := h.c.newWaiter(terms)\n	ln.push(w)",
		new: `	if g := ln.exclusive; g != nil && caged("re-entry-without-the-context") {
		defer sh.mu.Unlock()
		return g.newLease(ctx, g.token, g.granted), nil
	}
	w := h.c.newWaiter(terms)
	ln.push(w)`,
	},
	{
		name: "hand-over-with-the-same-token", catcher: test("TestLocalHandoverHasAFreshToken"), sim: "tokens", file: "grant.go",
		old: "	g.index++\n",
		new: `	if !caged("hand-over-with-the-same-token") {
		g.index++
	}
`,
	},
	{
		name: "hand-over-without-end", catcher: test("TestLocalHandoverIsBoundedInNumber"), file: "release.go",
		old: "		int(g.passes) < opts.LocalHandovers && now",
		new: `		(int(g.passes) < opts.LocalHandovers || g.index < 255 && caged("hand-over-without-end")) && now`,
	},
	{
		name: "reader-overtakes-a-writer", catcher: test("TestWriterIsNotStarved"), file: "acquire.go",
		old: "	terms := h.terms(ctx)\n",
		new: `	terms := h.terms(ctx)
	if caged("reader-overtakes-a-writer") && terms.Mode == driver.Shared {
		h.sh.mu.Lock()
		if s := h.sh.session; s != nil {
			for g := s.grants; g != nil; g = g.next { // any reader here lets us in
				if g.claim.Name == h.name && g.claim.Terms.Mode == driver.Shared && g.leases != nil {
					defer h.sh.mu.Unlock()
					return g.newLease(ctx, g.nextToken(), g.granted), nil
				}
			}
		}
		h.sh.mu.Unlock()
	}
`,
	},
	{
		name: "all-locks-in-the-order-given", catcher: test("TestLockAllDoesNotDeadlock"), file: "lockall.go",
		old: "	sorted := slices.Compact(slices.Sorted(slices.Values(names)))\n",
		new: `	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	if caged("all-locks-in-the-order-given") {
		sorted = names
	}
`,
	},
}
