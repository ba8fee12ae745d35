// SPDX-License-Identifier: Apache-2.0

package main

// coreMutants break time and loss in the core.
var coreMutants = []mutant{
	{
		name: "deadline-from-the-reply", catcher: test("TestDeadlineCountsFromTheSend"), file: "internal/core/renewal.go",
		old: "	if err == nil && !s.confirm(sent, renewal) {\n",
		new: `	if mutated("deadline-from-the-reply") {
		sent = s.c.clock.Now()
	}
	if err == nil && !s.confirm(sent, renewal) {
`,
	},
	{
		name: "deadline-from-the-reply-of-open", catcher: test("TestDeadlineCountsFromTheSend"), file: "internal/core/session.go",
		old: "	return drv, renewal, sent, err\n",
		new: `	if mutated("deadline-from-the-reply-of-open") {
		sent = s.c.clock.Now()
	}
	return drv, renewal, sent, err
`,
	},
	{
		name: "renewal-after-the-deadline", catcher: test("TestLateRenewalDoesNotReviveALease"), file: "internal/core/renewal.go",
		old: "	if !s.state.live() || s.c.clock.Now() >= clock.Instant(s.deadline.Load()) {",
		new: `	if !s.state.live() || s.c.clock.Now() >= clock.Instant(s.deadline.Load()) && !mutated("renewal-after-the-deadline") {`,
		also: &edit{file: "internal/core/session.go",
			old: "	now := s.c.clock.Now()\n	if now >= clock.Instant(s.deadline.Load()) {\n		s.end(lost(ErrUnrenewed))\n		return\n	}\n",
			new: `	now := s.c.clock.Now()
	late := now >= clock.Instant(s.deadline.Load())
	if late && mutated("renewal-after-the-deadline") {
		s.timer.Reset(suspendTick) // the call under way will notify
		return
	}
	if late {
		s.end(lost(ErrUnrenewed))
		return
	}
`},
	},
	{
		name: "deadline-waits-for-the-call", catcher: test("TestHolderIsNotifiedAtTheDeadlineWhateverIsInFlight"), file: "internal/core/session.go",
		old: "	now := s.c.clock.Now()\n	if now >= clock.Instant(s.deadline.Load()) {\n		s.end(lost(ErrUnrenewed))\n		return\n	}\n",
		new: `	now := s.c.clock.Now()
	if now >= clock.Instant(s.deadline.Load()) {
		s.timer.Reset(suspendTick) // the call in flight will end the session
		return
	}
`,
	},
	{
		name: "one-failed-renewal-loses-all", catcher: test("TestFailedRenewalIsTriedAgain"), file: "internal/core/renewal.go",
		old: "		case errors.Is(err, driver.ErrRefused):",
		new: "		case err != nil:",
	},
	{
		name: "suspend-does-not-count", catcher: test("TestSuspendCountsAsTime"), file: "internal/clock/clock.go",
		old: "	s := int64(c.suspended() - c.base)\n",
		new: `	s := int64(c.suspended() - c.base)
	if mutated("suspend-does-not-count") {
		s = 0
	}
`,
	},
	{
		name: "trusted-beyond-the-ttl", catcher: checker("overlap"), file: "internal/timing/timing.go",
		old: "	return ttl - time.Duration(float64(ttl)*drift) - margin",
		new: `	if mutated("trusted-beyond-the-ttl") {
		return ttl + margin
	}
	return ttl - time.Duration(float64(ttl)*drift) - margin`,
	},
	{
		name: "holder-notified-after-the-withdrawal", catcher: test("TestHolderIsNotifiedBeforeItsSessionIsClosed"), file: "internal/core/grant.go",
		old: "	var leases []*Lease\n	for _, g := range notify {\n",
		new: `	var leases []*Lease
	for _, g := range notify {
		if mutated("holder-notified-after-the-withdrawal") {
			_, _, _ = g.s.callWithdraw(g.s.ctx, driver.Withdrawal{Seq: g.claim.Seq, Name: g.claim.Name}, nil)
		}
`,
	},
	{
		name: "grant-crosses-the-loss", catcher: test("TestGrantThatCrossedALossIsAskedForAgain"), file: "internal/core/grant.go",
		old: "	if ans.generation != s.generation {",
		new: `	if ans.generation != s.generation && !mutated("grant-crosses-the-loss") {`,
	},
	{
		name: "forgotten-lease-kept", catcher: test("TestLeaseThatTheStoreLostIsLost"), file: "internal/core/reclaim.go",
		old: "		case kept[i]:\n",
		new: "		case kept[i] || mutated(\"forgotten-lease-kept\"):\n",
	},
	{
		name: "reclaim-given-up-half-way", catcher: test("TestInterruptedReclaimIsRepeated"), file: "internal/core/renewal.go",
		old: "	drv, lostData := s.drv, s.state.lostData()\n",
		new: `	drv, lostData := s.drv, s.state.lostData() && !mutated("reclaim-given-up-half-way")
`,
	},
}
