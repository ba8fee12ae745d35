// SPDX-License-Identifier: Apache-2.0

package main

// Files of the store that shares locks with etcd's package concurrency, and the package whose tests kill their mutants.
const (
	etcdSharedPkg  = "store/etcdstore/concurrencystore"
	etcdStoreFile  = etcdSharedPkg + "/store.go"
	etcdOpFile     = etcdSharedPkg + "/attempt.go"
	etcdLeaveFile  = etcdSharedPkg + "/withdraw.go"
	etcdRenewFile  = etcdSharedPkg + "/session.go"
	etcdQueueFile  = etcdSharedPkg + "/queue.go"
	etcdClaimsFile = etcdSharedPkg + "/claims.go"
	etcdCostTest   = "TestCostDoesNotGrowWithTheQueue"
	etcdLostTest   = "TestUnlockOfADeletedKeyIsReported"
)

// etcdMutants break locks that etcd's package concurrency shares.
var etcdMutants = []mutant{
	{
		name: "ec-older-data-unseen", catcher: testOf(etcdSharedPkg, "TestRestoreToOlderDataIsNoticed"), file: etcdStoreFile,
		old: "	return resp, s.parts.Revisions.See(resp.Header, high)\n",
		new: "	_ = high\n	return resp, nil\n",
	},
	{
		name: "ec-lost-lock-quiet", catcher: testOf(etcdSharedPkg, etcdLostTest), file: etcdLeaveFile,
		old: "	case lost:\n",
		new: "	case false:\n",
	},
	{
		name: "ec-lost-lock-once", catcher: testOf(etcdSharedPkg, etcdLostTest), file: etcdLeaveFile,
		old: "		return driver.WasBroken, true\n",
		new: "		return driver.WasBroken, false\n",
	},
	{
		name: "ec-own-removal-is-a-loss", catcher: testOf(etcdSharedPkg, "TestLostReplyOfAnUnlockLeavesNoKey"), file: etcdLeaveFile,
		old: "now.state == granted && now.leaving == 0 && handle",
		new: "now.state == granted && handle",
	},
	{
		name: "ec-tombstone-too-late", catcher: testOf(etcdSharedPkg, "TestAttemptThatArrivesDuringATombstoneLeavesNoKey"), file: etcdLeaveFile,
		old: "se.nothingSince(w.Name, resp.Header.Revision)",
		new: "se.nothingSince(w.Name, 1<<62)",
	},
	{
		name: "ec-removed-is-broken", catcher: testOf(etcdSharedPkg, "TestUnlockedKeyIsNotReportedAsBroken"), file: etcdClaimsFile,
		old: "		if k.state == granted && k.leaving == 0 {\n",
		new: "		if k.state == granted {\n",
	},
	{
		name: "ec-stale-list-believed", catcher: testOf(etcdSharedPkg, "TestStaleListOfKeysBreaksNothing"), file: etcdRenewFile,
		old: "		gone, err := se.absentOf(ctx, held, part)\n",
		new: "		gone, err := part, error(nil)\n",
	},
	{
		name: "ec-ended-is-broken", catcher: testOf(etcdSharedPkg, "TestLeaseThatEndsDuringARenewalIsGone"), file: etcdRenewFile,
		old: "	case handle == 0:\n		return nil, driver.ErrGone\n	case handle != se.claims.latest():\n",
		new: "	case handle != 0 && handle != se.claims.latest():\n",
	},
	{
		name: "ec-late-attempt-writes", catcher: testOf(etcdSharedPkg, "TestLateAttemptOfAnEarlierHandleLeavesNoKey"), file: etcdOpFile,
		old: "		clientv3.Compare(clientv3.ModRevision(keys.Handle(a.session.id)), \"=\", handle),\n",
		new: "		there(keys.Handle(a.session.id)),\n",
	},
	{
		name: "ec-grant-not-found-again", catcher: testOf(etcdSharedPkg, "TestLostReplyOfAGrantLeavesOneKey"), file: etcdSharedPkg + "/entry.go",
		old: "		if all[i].ours && all[i].id == id {\n",
		new: "		if false {\n",
	},
	{
		name: "ec-earlier-claims-stay", catcher: testOf(etcdSharedPkg, "TestClaimsOfAnEarlierHandleAreDropped"), file: etcdSharedPkg + "/reclaim.go",
		old: "	if !se.claims.resuming() {\n",
		new: "	if true {\n",
	},
	{
		name: "ec-reclaimed-is-dropped", catcher: testOf(etcdSharedPkg, "TestClaimsOfAnEarlierHandleAreDropped"), file: etcdClaimsFile,
		old: "	return c.touched != nil && !c.touched[seq]\n",
		new: "	return c.touched != nil\n",
	},
	{
		name: "ec-front-read-whole", catcher: testOf(etcdSharedPkg, etcdCostTest), file: etcdQueueFile,
		old: "ascending, clientv3.WithLimit(1))",
		new: "ascending)",
	},
	{
		name: "ec-keys-before-read-whole", catcher: testOf(etcdSharedPkg, etcdCostTest), file: etcdQueueFile,
		old: "clientv3.WithLimit(n), clientv3.WithMaxCreateRev(revision-1))",
		new: "clientv3.WithMaxCreateRev(revision-1))",
	},
	{
		name: "ec-polls-at-once", catcher: testOf(etcdSharedPkg, "TestPollsAreLaterFartherBack"), file: etcdOpFile,
		old: " + time.Duration(min(out.Position, near))*pollStep\n",
		new: "\n",
	},
	{
		name: "ec-longer-names-count", catcher: testOf(etcdSharedPkg, "TestNameThatContinuesAnotherIsAnother"), file: etcdQueueFile,
		old: "	return !strings.Contains(strings.TrimPrefix(string(kv.Key), q.under), \"/\")\n",
		new: "	return true\n",
	},
	{
		name: "ec-equal-revision-skipped", catcher: testOf(etcdSharedPkg, "TestClaimOfTheSameRevisionAsALongerNameHolds"), file: etcdQueueFile,
		old: "	keys, err := q.keys(ctx, revision)\n",
		new: "	keys, err := q.keys(ctx, revision, clientv3.WithMinCreateRev(resp.Kvs[0].CreateRevision+1))\n",
	},
	{
		name: "ec-unreadable-overwritten", catcher: testOf(etcdSharedPkg, "TestKeyWithAnotherValueIsNotOverwritten"), file: etcdOpFile,
		old: "		if slot, ok := slotOf(string(kv.Key), se.ownKey(name)); ok {\n",
		new: "		if slot, ok := slotOf(string(kv.Key), se.ownKey(name)); ok && read(kv).ours {\n",
	},
	{
		name: "ec-renewal-thrown-away", catcher: testOf(etcdSharedPkg, "TestRenewalCountsAlthoughKeysCannotBeRead"), file: etcdRenewFile,
		old: "	case passing(err) && se.unread.Add(1) < maxUnread:\n",
		new: "	case false && passing(err):\n",
	},
	{
		name: "ec-renewal-too-late", catcher: testOf(etcdSharedPkg, "TestRenewalIsInTimeAlthoughKeysAreNotRead"), file: etcdRenewFile,
		old: "time.Until(deadline)/2)",
		new: "time.Until(deadline))",
	},
	{
		name: "ec-unsent-removal-counts", catcher: testOf(etcdSharedPkg, "TestUnlockThatWasNotDoneHidesNoLoss"), file: etcdLeaveFile,
		old: "	if err == nil || failure.NotDone(ctx, err) {\n",
		new: "	if err == nil {\n",
	},
	{
		name: "ec-failed-removal-counts", catcher: testOf(etcdSharedPkg, "TestUnlockThatWasNotDoneHidesNoLoss"), file: etcdLeaveFile,
		old: "	if err == nil || failure.NotDone(ctx, err) {\n",
		new: "	if err != nil && failure.NotDone(ctx, err) {\n",
	},
	{
		name: "ec-fenced-unstated", catcher: testOf(etcdSharedPkg, "TestCorrectnessNeedsFencedPeers"), file: etcdStoreFile,
		old: "	if !s.fenced {\n",
		new: "	if false {\n",
	},
	{
		name: "ec-namespace-in-a-lock", catcher: testOf(etcdSharedPkg, "TestNamespaceMustBeBesideTheLocks"), file: etcdStoreFile,
		old: "(!inside || strings.LastIndex(rest, \"/\") <= 0)",
		new: "(!inside || rest != \"\")",
	},
	{
		name: "ec-name-in-the-namespace", catcher: testOf(etcdSharedPkg, "TestNameInTheNamespaceIsRefused"), file: etcdStoreFile,
		old: "	case strings.HasPrefix(under, s.parts.Keys.All()):\n",
		new: "	case false:\n",
	},
	{
		name: "ec-watcher-replaced", catcher: testOf(etcdSharedPkg, "TestWrappedClientIsRefused"), file: "store/etcdstore/store.go",
		old: ", {\"Watcher\", client.Watcher, watcher}}",
		new: "}",
	},
}
