// SPDX-License-Identifier: Apache-2.0

package main

const (
	remotePkg     = "cmd/fencelock/internal/remote"
	remoteRenew   = remotePkg + "/renew.go"
	remoteRelease = remotePkg + "/release.go"
	remoteHandle  = remotePkg + "/handle.go"
	remoteTrust   = remotePkg + "/trust.go"
	remoteBook    = remotePkg + "/book.go"
	remoteWorkers = remotePkg + "/workers.go"
)

// remoteMutants break the leases that a server holds for clients in other languages.
var remoteMutants = []mutant{
	{
		name: "re-acquisition-waits-for-another", catcher: testOf(remotePkg, "TestWorkers"), file: remoteWorkers,
		old: "	default:\n		go w.run(f)\n",
		new: "	default:\n		w.run(f)\n",
	},
	{
		name: "re-all-workers-stay", catcher: testOf(remotePkg, "TestWorkers"), file: remoteWorkers,
		old: "		if w.idle.Add(1) > maxIdle {\n",
		new: "		if w.idle.Add(1) < 0 {\n",
	},
	{
		name: "re-workers-outlive-the-server", catcher: testOf(remotePkg, "TestWorkers"), file: remoteWorkers,
		old: "		case <-w.closing:\n			return\n",
		new: "",
	},
	{
		name: "re-lost-lease-continued", catcher: testOf(remotePkg, "TestLeaseThatTheStoreLostIsNotContinued"), file: remoteRenew,
		old: "	case held.Token() != n.Token:\n",
		new: "	case held.Token() == 0:\n",
	},
	{
		name: "re-older-grant-renewed", catcher: testOf(remotePkg, "TestRenewalIsOfTheGrantThatTheClientNames"), file: remoteRenew,
		old: "	case l.state == Held && l.held.Token() != token:\n",
		new: "	case l.state == Held && l.held.Token() == 0:\n",
	},
	{
		name: "re-waiting-lease-renewed", catcher: testOf(remotePkg, "TestRenewalAtAServerThatStillWaits"), file: remoteRenew,
		old: "	return l.state == Held\n",
		new: "	return l.state != Lost\n",
	},
	{
		name: "re-id-replaces-a-lease", catcher: testOf(remotePkg, "TestIDOfAnotherLockDoesNotReplaceALease"), file: remoteRenew,
		old: "	l := s.leases[n.ID]\n",
		new: "	l := s.lease(n)\n",
	},
	{
		name: "re-another-grant-reported", catcher: testOf(remotePkg, "TestRenewalReportsNoOtherGrant"), file: remoteRenew,
		old: "(n.Token == 0 || l.state == Lost || l.hasLocked(n.Token))",
		new: "(n.Token != -1)",
	},
	{
		name: "re-loss-during-the-wait-not-joined", catcher: testOf(remotePkg, "TestLossDuringTheWaitIsCheckedInTheStore"), file: remoteRenew,
		old: "		if answers[i].State == Lost && n.Token != 0 && !joined[n.ID] {\n",
		new: "		if answers[i].State == Lost && n.Token == 0 && !joined[n.ID] {\n",
	},
	{
		name: "re-elsewhere-reported-late", catcher: testOf(remotePkg, "TestElsewhereIsReportedAtOnce"), file: remoteRenew,
		old: "a.State == Lost || a.Elsewhere || a.Wanted",
		new: "a.State == Lost || a.Wanted",
	},
	{
		name: "re-lost-leases-count", catcher: testOf(remotePkg, "TestLostLeasesDoNotCount"), file: remoteBook,
		old: "		case l.state != Lost:\n			n++\n",
		new: "		case l.state != \"\":\n			n++\n",
	},
	{
		name: "re-joins-limited-as-acquisitions", catcher: testOf(remotePkg, "TestRenewalJoinsMoreThanASessionAcquires"), file: remoteRenew,
		old: "!s.roomLocked(maxJoined)",
		new: "!s.roomLocked(MaxLeases)",
	},
	{
		name: "re-later-grant-released", catcher: testOf(remotePkg, "TestReleaseOfAnEarlierGrantIsLost"), file: remoteRelease,
		old: "			return n.Token == 0 || h.Token == n.Token, ",
		new: "			return true, ",
	},
	{
		name: "re-move-reported-late", catcher: testOf(remotePkg, "TestMoveIsReportedAtOnce"), file: remoteRenew,
		old: "			news = news || l.moved && !l.reported\n",
		new: "",
	},
	{
		name: "re-move-reported-again-and-again", catcher: testOf(remotePkg, "TestMoveIsReportedAtOnce"), file: remoteRenew,
		old: "			l.reported = l.moved\n",
		new: "",
	},
	{
		name: "re-all-renewals-wait", catcher: testOf(remotePkg, "TestOldestRenewalReturnsWhenThereAreMore"), file: remoteRenew,
		old: "		news = news || s.polls-poll >= maxPolls\n",
		new: "",
	},
	{
		name: "re-acquisition-of-a-moved-lease-waits", catcher: testOf(remotePkg, "TestAcquisitionOfAMovedLeaseDoesNotWait"), file: remoteRenew,
		old: "watched: n.Watch, decided: decided}",
		new: "watched: n.Watch}",
	},
	{
		name: "re-release-leaves-other-servers", catcher: testOf(remotePkg, "TestReleaseThatLeavesAClaimIsAnError"), file: remoteRelease,
		old: "		err = b.breakRest(ctx, n.Lock, held.Token())\n",
		new: "",
	},
	{
		name: "re-release-of-a-lease-lost-here", catcher: testOf(remotePkg, "TestReleaseAtAServerThatLostTheLease"), file: remoteRelease,
		old: "	case l == nil, lost, held == nil",
		new: "	case l == nil, held == nil && !lost",
	},
	{
		name: "re-release-of-a-lease-waited-for-here", catcher: testOf(remotePkg, "TestReleaseAtAServerThatStillWaits"), file: remoteRelease,
		old: "	case l == nil, lost, held == nil && (moved || n.Token != 0):",
		new: "	case l == nil, lost:",
	},
	{
		name: "re-loss-not-returned", catcher: testOf(remotePkg, "TestReleaseOfALostLeaseIsLost"), file: remoteRelease,
		old: "	case lost && !found:\n",
		new: "	case lost && found:\n",
	},
	{
		name: "re-release-forgotten", catcher: testOf(remotePkg, "TestLateAcquisitionAfterAReleaseIsNotMade"), file: remoteRelease,
		old: "		s.endedLocked(ended{id: n.ID}) // an acquisition may be on its way\n",
		new: "",
	},
	{
		name: "re-unnamed-lease-kept", catcher: testOf(remotePkg, "TestLeaseEndsWithTheTTLOfItsClient"), file: remoteBook,
		old: "			s.book.unlockLaterLocked(l.endLocked())\n		} else if end.Before",
		new: "			l.endLocked()\n		} else if end.Before",
	},
	{
		name: "re-trusted-without-a-margin", catcher: testOf(remotePkg, "TestTrustedTime"), file: remoteTrust,
		old: "	end := expires.Add(-ttl / marginShare)\n",
		new: "	end := expires\n",
	},
	{
		name: "re-trusted-for-longer-than-by-the-server", catcher: testOf(remotePkg, "TestTrustedTime"), file: remoteTrust,
		old: "	if deadline.Before(end) {\n",
		new: "	if deadline.Before(end) && deadline.IsZero() {\n",
	},
	{
		name: "re-never-elsewhere", catcher: testOf(remotePkg, "TestServerThatIsCutOffSendsClientsElsewhere"), file: remoteTrust,
		old: "deadline.Sub(now) < ttl*3/4",
		new: "deadline.Sub(now) < ttl/4",
	},
	{
		name: "re-elsewhere-too-early", catcher: testOf(remotePkg, "TestServerThatIsCutOffSendsClientsElsewhere"), file: remoteTrust,
		old: "deadline.Sub(now) < ttl*3/4",
		new: "deadline.Sub(now) < ttl*9/4",
	},
	{
		name: "re-session-of-every-user", catcher: testOf(remotePkg, "TestHandleIsASecret"), file: remoteHandle,
		old: "h.sum(\"session\", user)",
		new: "h.sum(\"session\")",
	},
	{
		name: "re-reentry-of-every-user", catcher: testOf(remotePkg, "TestHandleIsASecret"), file: remoteHandle,
		old: "h.sum(\"lease\", user, lock, id)",
		new: "h.sum(\"lease\", lock, id)",
	},
	{
		name: "re-handle-in-logs", catcher: testOf(remotePkg, "TestHandleIsASecret"), file: remoteHandle,
		old: "{ return handlePrefix + \"…\" }",
		new: "{ return h.text }",
	},
}
