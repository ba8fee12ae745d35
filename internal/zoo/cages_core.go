// SPDX-License-Identifier: Apache-2.0

package main

// coreCages break time and loss in the core.
var coreCages = []cage{
	{
		name: "deadline-from-the-reply", catcher: test("TestDeadlineCountsFromTheSend"), file: "session.go",
		old: "			if err == nil {\n				return sent, s.confirm(sent, life)\n			}",
		new: `			if caged("deadline-from-the-reply") {
				sent = s.c.clock.Now()
			}
			if err == nil {
				return sent, s.confirm(sent, life)
			}`,
	},
	{
		name: "deadline-from-the-reply-of-open", catcher: test("TestDeadlineCountsFromTheSend"), file: "session.go",
		old: "	return drv, life, sent, err\n",
		new: `	if caged("deadline-from-the-reply-of-open") {
		sent = s.c.clock.Now()
	}
	return drv, life, sent, err
`,
	},
	{
		name: "renewal-after-the-deadline", catcher: test("TestLateRenewalDoesNotReviveALease"), file: "session.go",
		old: "	if !s.open || s.c.clock.Now() >= clock.Instant(s.deadline.Load()) {",
		new: `	if !s.open || s.c.clock.Now() >= clock.Instant(s.deadline.Load()) && !caged("renewal-after-the-deadline") {`,
		also: &edit{file: "session.go",
			old: "	now := s.c.clock.Now()\n	if now >= clock.Instant(s.deadline.Load()) {\n		s.end(lost(ErrUnrenewed))\n		return\n	}\n",
			new: `	now := s.c.clock.Now()
	late := now >= clock.Instant(s.deadline.Load())
	if late && caged("renewal-after-the-deadline") {
		s.timer.Reset(suspendTick) // the call under way will tell
		return
	}
	if late {
		s.end(lost(ErrUnrenewed))
		return
	}
`},
	},
	{
		name: "deadline-waits-for-the-call", catcher: test("TestHolderIsToldAtTheDeadlineWhateverIsUnderWay"), file: "session.go",
		// In the text that the cage before has made.
		old: `	if late && caged("renewal-after-the-deadline") {`,
		new: `	if late && (caged("renewal-after-the-deadline") || caged("deadline-waits-for-the-call")) {`,
	},
	{
		name: "one-failed-renewal-loses-all", catcher: test("TestFailedRenewalIsTriedAgain"), file: "session.go",
		old: "		if !transient(err) && !errors.Is(err, driver.ErrForgotten) {",
		new: `		if !transient(err) && !errors.Is(err, driver.ErrForgotten) || caged("one-failed-renewal-loses-all") {`,
	},
	{
		name: "suspend-does-not-count", catcher: test("TestSuspendCountsAsTime"), file: "internal/clock/clock.go",
		old: "	s := int64(c.suspended() - c.base)\n",
		new: `	s := int64(c.suspended() - c.base)
	if caged("suspend-does-not-count") {
		s = 0
	}
`,
	},
	{
		name: "trusted-beyond-the-ttl", catcher: checker("overlap"), file: "internal/timing/timing.go",
		old: "	return ttl - time.Duration(float64(ttl)*drift) - margin",
		new: `	if caged("trusted-beyond-the-ttl") {
		return ttl + margin
	}
	return ttl - time.Duration(float64(ttl)*drift) - margin`,
	},
	{
		name: "holder-told-after-the-withdrawal", catcher: test("TestHolderIsToldBeforeItsEndIsSaidToTheStore"), file: "grant.go",
		old: "	var leases []*Lease\n	for _, g := range told {\n",
		new: `	var leases []*Lease
	for _, g := range told {
		if caged("holder-told-after-the-withdrawal") {
			_, _ = g.s.callWithdraw(g.s.ctx, driver.Withdrawal{Seq: g.claim.Seq, Name: g.claim.Name})
		}
`,
	},
	{
		name: "grant-crosses-the-loss", catcher: test("TestGrantThatCrossedALossIsAskedForAgain"), file: "admit.go",
		old: "	if gen != s.gen {",
		new: `	if gen != s.gen && !caged("grant-crosses-the-loss") {`,
	},
	{
		name: "forgotten-lease-kept", catcher: test("TestForgottenLeaseIsLost"), file: "resume.go",
		old: "		if err == nil && !kept[i] {",
		new: `		if err == nil && !kept[i] && !caged("forgotten-lease-kept") {`,
	},
	{
		name: "reclaim-given-up-half-way", catcher: test("TestInterruptedReclaimIsRepeated"), file: "session.go",
		old: "			s.forgotten = true\n",
		new: `			s.forgotten = !caged("reclaim-given-up-half-way")
`,
	},
}
