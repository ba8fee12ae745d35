// SPDX-License-Identifier: Apache-2.0

package main

// Packages of the quorum, and the test in which the search of its model runs.
const (
	slotFile    = "store/quorum/internal/vote/slot.go"
	removalFile = "store/quorum/internal/vote/removal.go"
	votePkg     = "store/quorum/internal/vote"
	quorumPkg   = "store/quorum"
)

var (
	bySearch = testOf("store/quorum/internal/model", "TestRulesAreEnoughAndNeeded")
	bySlots  = testOf(votePkg, "TestSlot")
)

// quorumMutants break the transitions of a claim on a node of a quorum, which the store
// and the search of its model share, and what the store does with them.
var quorumMutants = []mutant{
	{
		name: "qm-no-tombstone-for-a-reclaim", catcher: bySearch, file: removalFile,
		old: "return s.Late || s.Reclaims > 0 }",
		new: "return s.Late }",
	},
	{
		name: "qv-lost-grant-counts", catcher: bySlots, file: slotFile,
		old: "		return s, NoShare\n	}\n	s.Standing, s.Token = Granted, token",
		new: "		return s, FullShare\n	}\n	s.Standing, s.Token = Granted, token",
	},
	{
		name: "qm-attempt-in-flight-is-not-withdrawn", catcher: bySearch, file: removalFile,
		old: "	case Attempting:\n		s.Removal = Due\n",
		new: "	case Attempting:\n",
	},
	{
		name: "qm-refused-counts", catcher: bySearch, file: slotFile,
		old: "	case s.Holds() && counts:\n",
		new: "	case (s.Holds() || s.Standing == Refused) && counts:\n",
	},
	{
		name: "qm-any-token-wins", catcher: bySearch, file: "store/quorum/internal/vote/decide.go",
		old: "v.State == Yes && v.Token == token",
		new: "v.State == Yes",
	},
	{
		name: "qv-withdrawal-overtakes-the-attempt", catcher: bySlots, file: removalFile,
		old: "case !s.Leaving() || s.Call != Idle:",
		new: "case !s.Leaving():",
	},
	{
		name: "qv-stale-reply-believed", catcher: bySlots, file: slotFile,
		old: "	if !current {\n		s.Standing = Unreachable\n		return s\n	}\n",
		new: "",
	},
	{
		name: "qv-late-attempt-lost-with-the-data", catcher: bySlots, file: slotFile,
		old: "	t.Late = s.Late\n",
		new: "",
	},
	{
		name: "qv-second-reset-drops-the-token", catcher: bySlots, file: slotFile,
		old: "	if held { // Lost",
		new: "	if held && s.Standing == Granted { // Lost",
	},
	{
		name: "qv-resent-withdrawal-keeps-nothing", catcher: bySlots, file: removalFile,
		old: "		s.Removal = Resent\n",
		new: "		s.Removal = Sent\n",
	},
	{
		name: "qv-ended-session-reopened-under-its-id", catcher: testOf(votePkg, "TestNodeSession"), file: "store/quorum/internal/vote/session.go",
		old: "return Closed, true",
		new: "return Closed, false",
	},
	{
		name: "qs-reclaim-counts-nodes-not-kept", catcher: testOf(quorumPkg, "TestReclaimCountsNodesKeptSinceTheReopening"),
		file: "store/quorum/reclaim.go",
		old:  " || w.b.links[n].kept < w.b.base {",
		new:  " {",
	},
	{
		name: "qs-reclaim-counts-nodes-without-the-claim", catcher: testOf(quorumPkg, "TestReclaimNeedsNodesThatHadTheClaim"),
		file: "store/quorum/reclaim.go",
		old:  "		case vote.FullShare:\n",
		new:  "		case vote.FullShare, vote.LaterShare:\n",
		also: &edit{
			file: "store/quorum/reclaim.go",
			old:  "		case vote.LaterShare:\n			later = later.With(n)\n",
			new:  "",
		},
	},
	{
		name: "qs-reclaim-not-patient", catcher: testOf(quorumPkg, "TestReclaimWaitsForANodeThatItNeeds"), file: "store/quorum/reclaim.go",
		old: "b.decided(requests, got)))",
		new: "len(got) > 0))",
	},
	{
		name: "qs-list-not-patient", catcher: testOf(quorumPkg, "TestListOfSlowNodes"), file: "store/quorum/inspect.go",
		old: "(len(got) < least || awaited != 0)",
		new: "len(got) < least",
	},
	{
		name: "qs-reclaim-not-noted", catcher: testOf(quorumPkg, "TestUnlockOvertakesAReclaim"), file: "store/quorum/reclaim.go",
		old: "		s.Slot = s.Reclaim()\n",
		new: "		s.Slot = s.Asks()\n",
		also: &edit{
			file: slotFile,
			old:  "	s.Reclaims--\n",
			new:  "",
		},
	},
	{
		name: "q-held-up-by-a-late-node", catcher: testOf("store/quorum", "TestSlowNodeDoesNotHoldUpAContendedLock"), file: "store/quorum/round.go",
		old: "	return inTheWay && answered >= w.need\n",
		new: "	return inTheWay && answered > len(w.slots)\n",
	},
	{
		name: "q-not-asked-again-after-giving-way", catcher: testOf("store/quorum", "TestSlowNodeDoesNotHoldUpAContendedLock"), file: "store/quorum/round.go",
		old: "s.Slot = s.AskAgain() // behind",
		new: "_ = s.AskAgain() // behind",
	},
}
