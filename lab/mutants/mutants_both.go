// SPDX-License-Identifier: Apache-2.0

package main

const (
	bothPkg     = "store/both"
	bothAttempt = "store/both/attempt.go"
	bothSession = "store/both/session.go"
)

// bothMutants break clauses of package both, one each.
var bothMutants = []mutant{
	{
		name: "bo-old-lock-held-in-grace", catcher: testOf(bothPkg, "TestB12OldLockIsGivenBackInAGracePeriod"), file: bothAttempt,
		old: "	case out.Grace:\n		return s.rest(ctx, c, out.PollAfter)\n",
		new: "",
	},
	{
		name: "bo-waits-for-the-old-in-grace", catcher: testOf(bothPkg, "TestB12OldStoreIsNotAskedInAGracePeriod"), file: "store/both/store.go",
		old: "	opened.doubt.Store(true)\n",
		new: "",
	},
	{
		name: "bo-late-attempt-after-a-rest", catcher: testOf(bothPkg, "TestB12LateAttemptIsTombstoned"), file: "store/both/grace.go",
		old: "Name: c.Name, Tombstone: known.unsure}",
		new: "Name: c.Name}",
	},
	{
		name: "bo-old-lock-awaited-beside-the-next", catcher: testOf(bothPkg, "TestB4ClaimThatLostTheOldLockBeginsAgain"), file: bothAttempt,
		old: "	case known.asked:\n",
		new: "	case known.reported:\n",
	},
	{
		name: "bo-old-lock-not-confirmed", catcher: testOf(bothPkg, "TestB4OldLockIsConfirmedAfterAWait"), file: bothAttempt,
		old: "	if confirm || raise {\n",
		new: "	if raise {\n",
	},
	{
		name: "bo-token-not-above-the-old", catcher: testOf(bothPkg, "TestB3TokensRiseThroughAllPhases"), file: bothAttempt,
		old: "		asked.Floor, asked.Lift = above(first.Token), !known.reported\n",
		new: "",
	},
	{
		name: "bo-old-tokens-not-raised", catcher: testOf(bothPkg, "TestB3TokensRiseThroughAllPhases"), file: bothAttempt,
		old: "			again.Floor = above(out.Token)\n",
		new: "",
	},
	{
		name: "bo-try-keeps-the-old-lock", catcher: testOf(bothPkg, "TestB5TryGivesTheOldLockBack"), file: bothAttempt,
		old: "	return waiting(out), s.giveBack(ctx, c)\n",
		new: "	return waiting(out), nil\n",
	},
	{
		name: "bo-await-unattended", catcher: testOf(bothPkg, "TestB5AttemptThatAwaitMadeIsTombstoned"), file: bothSession,
		old: "	w.Tombstone = w.Tombstone || c.unsure\n",
		new: "",
	},
	{
		name: "bo-one-session-is-enough", catcher: testOf(bothPkg, "TestB7LeaseEndsUnlessBothStoresAnswer"), file: bothSession,
		old: "	go ask(true, s.old)\n",
		new: "	go ask(true, s.next)\n",
	},
	{
		name: "bo-longer-ttl", catcher: testOf(bothPkg, "TestB7ShorterTTLCounts"), file: bothSession,
		old: "	next.TTL = min(old.TTL, next.TTL)\n",
		new: "	next.TTL = max(old.TTL, next.TTL)\n",
	},
	{
		name: "bo-break-of-the-old-unheard", catcher: testOf(bothPkg, "TestB6LockThatOneStoreBrokeIsLost"), file: bothSession,
		old: "	next.Broken = slices.Concat(old.Broken, next.Broken)\n",
		new: "",
	},
	{
		name: "bo-reclaimed-in-one", catcher: testOf(bothPkg, "TestB6LockThatOneStoreLostIsLost"), file: bothSession,
		old: "			kept[i] = got[j]\n",
		new: "			kept[i] = got[j] || true\n",
	},
	{
		name: "bo-silent-store-keeps-the-other", catcher: testOf(bothPkg, "TestB8UnconfirmedReleaseIsRepeated"), file: bothSession,
		old: "		t := time.NewTimer(time.Until(end) / 2)\n",
		new: "		t := time.NewTimer(time.Until(end) * 2)\n",
	},
	{
		name: "bo-first-withdrawal-forgotten", catcher: testOf(bothPkg, "TestB8RepeatedReleaseFindsWhatTheFirstFound"), file: bothSession,
		old: "max(c.foundOld, old), max(c.foundNext, next)",
		new: "old, next",
	},
	{
		name: "bo-fencing-of-the-next-alone", catcher: testOf(bothPkg, "TestB3WithoutFloorsThatLastFencingIsBestEffort"), file: "store/both/store.go",
		old: "; !strict {\n",
		new: "; false && !strict {\n",
	},
	{
		name: "bo-min-hold-of-the-old", catcher: testOf(bothPkg, "TestB9GivingUpLeavesNoMinHold"), file: "store/both/hold.go",
		old: "	terms.MinHold, terms.MaxHold = 0, 0\n",
		new: "	terms.MaxHold = 0\n",
	},
	{
		name: "bo-min-hold-forgotten", catcher: testOf(bothPkg, "TestB9MinHoldCountsFromTheCommonGrant"), file: bothSession,
		old: "			w.KeepFor = c.keepOld(w)\n",
		new: "",
	},
	{
		name: "bo-max-hold-of-the-old", catcher: testOf(bothPkg, "TestB9MaxHoldCountsFromTheCommonGrant"), file: "store/both/hold.go",
		old: "	terms.MinHold, terms.MaxHold = 0, 0\n",
		new: "	terms.MinHold = 0\n",
	},
	{
		name: "bo-lost-try-not-withdrawn", catcher: testOf(bothPkg, "TestB5TryThatLosesTheOldLockLeavesNothing"), file: bothAttempt,
		old: "c.Queue || known.reported {\n		return absent, nil\n",
		new: "true || c.Queue || known.reported {\n		return absent, nil\n",
	},
	{
		name: "bo-fresh-grant-confirms", catcher: testOf(bothPkg, "TestB4FreshOldGrantIsNoConfirmation"), file: bothAttempt,
		old: "first.State == driver.Granted && !(known.granted && known.old != first.Token)",
		new: "first.State == driver.Granted",
	},
	{
		name: "bo-break-fence-of-the-new", catcher: testOf(bothPkg, "TestB10FenceIsBelowTheTokensOfAllPhases"), file: "store/both/break.go",
		old: "	_ = raise(ctx, lower, name, max(old, next))\n",
		new: "	_ = lower\n",
	},
	{
		name: "bo-mark-not-reclaimed", catcher: testOf(bothPkg, "TestB11MarkSurvivesALossBeforeTheReply"), file: bothSession,
		old: "		s.claims.mark(w.Seq, false)\n",
		new: "",
	},
	{
		name: "bo-left-over-after-a-resume", catcher: testOf(bothPkg, "TestConformanceWithOneSideReset"), file: bothSession,
		old: "		return kept, s.dropLeftOver(ctx)\n",
		new: "		return kept, nil\n",
	},
	{
		name: "bo-no-margin-after-an-end", catcher: testOf(bothPkg, "TestB6SessionThatOneStoreEndedIsEnded"), file: "internal/core/session.go",
		old: "	if errors.Is(cause, ErrLost) {\n		t := time",
		new: "	if errors.Is(cause, ErrLost) && !errors.Is(cause, ErrEnded) {\n		t := time",
	},
	{
		name: "bo-no-margin-after-a-reset", catcher: testOf(bothPkg, "TestB6LockThatOneStoreLostIsLost"), file: "internal/core/reclaim.go",
		old: "lost(ErrReset), s.c.opts.Margin)",
		new: "lost(ErrReset), 0)",
	},
}
