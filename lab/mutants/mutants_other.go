// SPDX-License-Identifier: Apache-2.0

package main

// otherMutants break clocks, back-off and package shard.
var otherMutants = []mutant{
	{
		name: "tm-look-no-jitter-max", catcher: testOf("internal/timing", "TestCases"), file: "internal/timing/timing.go",
		old: "	d := min(max(hint, least), ttl)\n",
		new: "	d := max(hint, least)\n",
	},
	{
		name: "tm-poll-unbounded", catcher: testOf("internal/timing", "TestCases"), file: "internal/timing/timing.go",
		old: "	d = min(d, limit)\n",
		new: "",
	},
	{
		name: "ck-sent-uses-base", catcher: testOf("internal/clock", "TestNowCountsSuspend"), file: "internal/clock/clock.go",
		old: "	return Instant(c.running()) + Instant(c.seen.Load())\n",
		new: "	return c.Now()\n",
	},
	{
		name: "sh-moving-opens", catcher: testOf("store/shard", "TestAddingAMember"), file: "store/shard/register.go",
		old: `	if err == nil && p.moves() {
		err = r.adopt(ctx)
	}
`,
		new: "",
	},
	{
		name: "sh-limit-moving", catcher: testOf("store/shard", "TestAddingAMember"), file: "store/shard/store.go",
		old: "	case p.moves() && !s.register.hasAdopted():\n",
		new: "	case false:\n",
	},
	{
		name: "sh-own-member-only", catcher: testOf("store/shard", "TestOtherListAtASlowMemberIsRefused"), file: "store/shard/register.go",
		old: "		if patience == nil && !waiting[own] && allAway(waiting) {\n",
		new: "		if patience == nil && !waiting[own] {\n",
	},
	{
		name: "sh-silent-member-awaited", catcher: testOf("store/shard", "TestTryBesideASilentMember"), file: "store/shard/register.go",
		old: "			late = true\n",
		new: "",
	},
	{
		name: "sh-other-list-unheard", catcher: testOf("store/shard", "TestOtherListIsFoundLater"), file: "store/shard/register.go",
		old: "		r.refused.Store(&err)\n",
		new: "",
	},
	{
		name: "sh-change-unread", catcher: testOf("store/shard", "TestTwoChangesAtOnceAreRefused"), file: "store/shard/entry.go",
		old: "misfit(st.Holders, want.fits); err == nil && found {",
		new: "misfit(st.Holders, want.fits); false && found {",
	},
	{
		name: "sh-lease-outlives-its-marker", catcher: testOf("store/shard", "TestMarkersOutliveTheLeases"), file: "store/shard/register.go",
		old: "	if e.outlives(lease) {\n",
		new: "	if e.marked.Load() {\n",
	},
	{
		name: "sh-markers-for-the-first-ttl", catcher: testOf("store/shard", "TestMarkersOutliveTheLongestLease"), file: "store/shard/register.go",
		old: "	r.ttl = max(r.ttl, ttl)\n",
		new: "	if r.ttl == 0 {\n		r.ttl = ttl\n	}\n",
	},
	{
		name: "sh-marked-after-a-reset", catcher: testOf("store/shard", "TestNothingIsGrantedWithoutAMarker"), file: "store/shard/entry.go",
		old: "		e.drv = nil\n		e.marked.Store(false)\n",
		new: "		e.drv = nil\n",
	},
	{
		name: "sh-mark-in-doubt-kept", catcher: testOf("store/shard", "TestMarkWithALostReplyIsNotKept"), file: "store/shard/entry.go",
		old: "	case err != nil:\n		e.abandon()\n",
		new: "	case err != nil:\n",
	},
	{
		name: "sh-marks-lost", catcher: testOf("store/shard", "TestMarkersSurviveADataLoss"), file: "store/shard/entry.go",
		old: "	case errors.Is(err, driver.ErrReset):\n		e.drv = nil\n",
		new: "	case errors.Is(err, driver.ErrReset):\n",
	},
	{
		name: "sh-broken-mark-kept", catcher: testOf("store/shard", "TestBrokenMarkerIsTakenAgain"), file: "store/shard/entry.go",
		old: "slices.Contains(renewal.Broken, h.Claim.Seq)",
		new: "slices.Contains(renewal.Broken, h.Claim.Seq+1)",
	},
	{
		name: "sh-marks-stay", catcher: testOf("store/shard", "TestMarkersEndWithTheLastSession"), file: "store/shard/entry.go",
		old: "	if e.drv == nil || !idle() {\n",
		new: "	if e.drv == nil || idle() {\n",
	},
	{
		name: "sh-caps-grace-or", catcher: testOf("store/shard", "TestRequireCorrectnessNamesTheMember"), file: "internal/parts/caps.go",
		old: "a.Grace = (a.Grace || b.Grace) && survives(a) && survives(b)",
		new: "a.Grace = a.Grace || b.Grace",
	},
	{
		name: "sh-caps-hold-or", catcher: testOf("store/shard", "TestCapsAreTheWeakest"), file: "internal/parts/caps.go",
		old: "a.Hold = a.Hold && b.Hold",
		new: "a.Hold = a.Hold || b.Hold",
	},
}
