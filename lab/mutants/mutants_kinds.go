// SPDX-License-Identifier: Apache-2.0

package main

// kindMutants break what is built on leases, and the options.
var kindMutants = []mutant{
	{
		name: "downgrade-reentered", catcher: apiTest("TestDowngradeRefuses"), file: "internal/core/downgrade.go",
		old: "	case g.leases != l || l.next != nil:\n",
		new: "	case false:\n",
	},
	{
		name: "downgrade-no-vacate", catcher: apiTest("TestDowngradeLetsNoWriterIn"), file: "internal/core/downgrade.go",
		old: "	defer l.g.freeQueue()\n",
		new: "",
	},
	{
		name: "downgrade-forgotten-is-error", catcher: test("TestDowngradeOverARestart"), file: "internal/core/downgrade.go",
		old: "		case errors.Is(err, driver.ErrReset):\n",
		new: "		case false:\n",
	},
	{
		name: "downgrade-busy-is-fine", catcher: test("TestUnlockDuringADowngradeLeavesNothing"), file: "internal/core/downgrade.go",
		old: "		case err == nil && a.State == driver.Granted:\n",
		new: "		case err == nil && a.State != driver.State(99):\n",
	},
	{
		name: "lockall-leaves-behind", catcher: apiTest("TestLockAllIsAllOrNone"), file: "lockall.go",
		old: "		return nil, set.abandon(ctx, &lockAllError{err})",
		new: "		return nil, &lockAllError{err}",
	},
	{
		name: "lockall-watches-first", catcher: apiTest("TestLockAllEndsWithItsFirstLoss"), file: "lockall.go",
		old: "	for _, l := range s.leases {\n		held",
		new: "	for _, l := range s.leases[:1] {\n		held",
	},
	{
		name: "lockall-keeps-one", catcher: apiTest("TestLockAllIsAllOrNone"), file: "lockall.go",
		old: "range slices.Backward(s.leases) {",
		new: "range slices.Backward(s.leases[min(1, len(s.leases)):]) {",
	},
	{
		name: "lockall-valid-any", catcher: apiTest("TestLockAllEndsWithItsFirstLoss"), file: "lockall.go",
		old: "return !slices.ContainsFunc(s.leases, func(l *Lease) bool { return !l.Valid() })",
		new: "return slices.ContainsFunc(s.leases, func(l *Lease) bool { return l.Valid() })",
	},
	{
		name: "lockall-no-dedup", catcher: apiTest("TestLockAllIsAllOrNone"), file: "lockall.go",
		old: "slices.Compact(slices.Sorted(slices.Values(names)))",
		new: "slices.Sorted(slices.Values(names))",
	},
	{
		name: "resign-does-not-wait", catcher: apiTest("TestElectionResignWaitsForLead"), file: "election.go",
		old: `	case <-t.over:
		return nil
`,
		new: `	default:
		return nil
`,
	},
	{
		name: "observe-goes-back", catcher: apiTest("TestObservedTermsDoNotGoBack"), file: "election.go",
		old: " && (token == 0 || token > newest):",
		new: ":",
	},
	{
		name: "election-loss-ends-run", catcher: apiTest("TestElectionCampaignsAgainAfterALoss"), file: "election.go",
		old: "		return err == nil, err\n",
		new: "		return false, err\n",
	},
	{
		name: "election-unlocks-before-lead-ends", catcher: apiTest("TestElectionWhileTheStoreIsUnavailable"), file: "election.go",
		old: "		case !errors.Is(err, ErrUnavailable):\n",
		new: "		case true:\n",
	},
	{
		name: "election-kept-leader", catcher: test("TestKeptElectionHasNoLeader"), file: "election.go",
		old: "if len(st.Holders) == 0 || st.Holders[0].Kept {",
		new: "if len(st.Holders) == 0 {",
	},
	{
		name: "once-mark-after-failure", catcher: apiTest("TestOnceMayRunAgainAfterAFailure"), file: "once.go",
		old: "	keep := time.Duration(0)\n	defer",
		new: "	keep := o.keep\n	defer",
	},
	{
		name: "once-skips-in-grace", catcher: apiTest("TestOnceWaitsForTheEndOfAGracePeriod"), file: "once.go",
		old: "	m.h.outlast = true\n",
		new: "",
	},
	{
		name: "call-without-parent", catcher: test("TestCloseEndsTheCallsOfEveryCaller"), file: "internal/callctx/callctx.go",
		old: "	stop := context.AfterFunc(m.parent, cancel)\n	return call",
		new: "	stop := func() bool { return true }\n	return call",
	},
	{
		name: "same-config-ignores-reason", catcher: test("TestRecordNamesTheHolder"), file: "internal/core/shard.go",
		old: "a.Record.Owner == b.Record.Owner && a.Record.Reason == b.Record.Reason &&",
		new: "a.Record.Owner == b.Record.Owner &&",
	},
	{
		name: "same-config-ignores-weight", catcher: apiTest("TestSemaphoreWaiterThatGivesUpBlocksNoOther"), file: "internal/core/shard.go",
		old: "a.Mode == b.Mode && a.Weight == b.Weight &&",
		new: "a.Mode == b.Mode &&",
	},
	{
		name: "same-config-ignores-limit", catcher: test("TestPermitsCountByTheirOwnLimit"), file: "internal/core/shard.go",
		old: " && a.Limit == b.Limit &&",
		new: " &&",
	},
	{
		name: "same-config-ignores-holds", catcher: checker("overlap"), file: "internal/core/shard.go",
		old: "		a.MinHold == b.MinHold && a.MaxHold == b.MaxHold && (a.Linger == b.Linger || a.Linger == 0) &&\n",
		new: "		(a.Linger == b.Linger || a.Linger == 0) &&\n",
	},
	{
		name: "label-shared-map", catcher: test("TestLabelsBelongToOneLock"), file: "lockoption.go",
		old: "labels := maps.Clone(w.terms.Record.Labels)",
		new: "labels := w.terms.Record.Labels",
	},
	{
		name: "margin-check-dropped", catcher: apiTest("TestBadOptionsAreErrors"), file: "options.go",
		old: "o.Margin < 0 || trust < o.TTL/2",
		new: "o.Margin < 0",
	},
}
