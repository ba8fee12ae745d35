// SPDX-License-Identifier: Apache-2.0

package main

// treeMutants break locks that other programs share in ZooKeeper's tree.
var treeMutants = []mutant{
	{
		name: "tr-deleted-unheard", catcher: testOf("store/zkstore/curatorstore", "TestDeletedNodeIsReported"), file: "store/zkstore/internal/treestore/owned.go",
		old: "	case zk.EventNodeDeleted:\n",
		new: "	case zk.EventNodeCreated:\n",
	},
	{
		name: "tr-revocation-uses-the-watch", catcher: testOf("store/zkstore/curatorstore", "TestDeletionAfterARevocationIsReported"), file: "store/zkstore/internal/treestore/owned.go",
		old: "		if l.owns(ev.Path) {\n",
		new: "		if false {\n",
	},
	{
		name: "tr-gone-between-watches", catcher: testOf("store/zkstore/curatorstore", "TestDeletionAfterARevocationIsReported"), file: "store/zkstore/internal/treestore/owned.go",
		old: "			l.deleted(path)\n",
		new: "",
	},
	{
		name: "tr-grant-of-a-deleted-node", catcher: testOf("store/zkstore/internal/treestore", "TestGrantOfADeletedNodeIsNotNoted"), file: "store/zkstore/internal/treestore/owned.go",
		old: "	if !l.store.layout.alone() && !l.ownsLocked(",
		new: "	if false && !l.ownsLocked(",
	},
	{
		name: "tr-missing-unreported", catcher: testOf("store/zkstore/internal/treestore", "TestMissingGrantIsReported"), file: "store/zkstore/internal/treestore/owned.go",
		old: "	if !l.store.layout.alone() {\n		l.takeLocked(seq)",
		new: "	if false {\n		l.takeLocked(seq)",
	},
	{
		name: "tr-withdrawn-is-broken", catcher: testOf("store/zkstore/internal/treestore", "TestMissingGrantIsReported"), file: "store/zkstore/internal/treestore/owned.go",
		old: "e.granted && e.leaving == 0 && !l.record.refuses(seq) {",
		new: "e.granted {",
	},
	{
		name: "tr-downgrade-unwatched", catcher: testOf("store/zkstore/curatorstore", "TestDowngradeWithALostReplyIsWatched"), file: "store/zkstore/internal/treestore/join.go",
		old: "		go a.watchOwned(parent + \"/\" + n.name)\n",
		new: "",
	},
	{
		name: "tr-lost-downgrade-unwatched", catcher: testOf("store/zkstore/curatorstore", "TestDowngradeWithALostReplyIsWatched"), file: "store/zkstore/internal/treestore/attempt.go",
		old: "	case e.token != 0 && (alone || l.owns(path)):\n",
		new: "	case e.token != 0:\n",
	},
	{
		name: "tr-parent-denied", catcher: testOf("store/zkstore/curatorstore", "TestParentsOfOthersAreUsed"), file: "store/zkstore/internal/treestore/call.go",
		old: "	if errors.Is(err, zk.ErrNoAuth) {\n",
		new: "	if false {\n",
	},
	{
		name: "tr-latch-revoked", catcher: testOf("store/zkstore/curatorstore", "TestLatchIsNotRevoked"), file: "store/zkstore/internal/treestore/curator.go",
		old: "return k.Revoke && k.Recipe != Latch",
		new: "return k.Revoke",
	},
	{
		name: "tr-reader-after-its-turn", catcher: testOf("store/zkstore/curatorstore", "TestReaderUnderItsWriterIsFenced"), file: "store/zkstore/internal/treestore/view.go",
		old: "			return min(token, next-tokenStep), nil\n",
		new: "			return token, nil\n",
	},
	{
		name: "tr-reader-apart-from-its-writer", catcher: testOf("store/zkstore/curatorstore", "TestReaderUnderItsWriterIsFenced"), file: "store/zkstore/internal/treestore/view.go",
		old: "		if w.place == n.place && w.mode == driver.Exclusive {\n",
		new: "		if false {\n",
	},
	{
		name: "tr-list-denied", catcher: testOf("store/zkstore/curatorstore", "TestListLeavesOutWhatIsDenied"), file: "store/zkstore/internal/treestore/walk.go",
		old: "		if below && errors.Is(err, zk.ErrNoAuth) {\n",
		new: "		if false {\n",
	},
	{
		name: "tr-list-root-denied", catcher: testOf("store/zkstore/curatorstore", "TestListLeavesOutWhatIsDenied"), file: "store/zkstore/internal/treestore/walk.go",
		old: "		if below && errors.Is(err, zk.ErrNoAuth) {\n",
		new: "		if errors.Is(err, zk.ErrNoAuth) {\n",
	},
	{
		name: "tr-list-reads-all", catcher: testOf("store/zkstore/internal/treestore", "TestPartOfAWalk"), file: "store/zkstore/internal/treestore/walk.go",
		old: "	return !before && (",
		new: "	return before || !before && (",
	},
	{
		name: "tr-paths-above-16-bits", catcher: testOf("store/zkstore/internal/treestore", "TestPathsOfZooKeeper"), file: "store/zkstore/internal/treestore/curator.go",
		old: "|| r >= 0xfff0\n",
		new: "|| r >= 0xfff0 && r <= 0xffff\n",
	},
	{
		name: "tr-created-without-a-stat", catcher: testOf("store/zkstore/internal/treestore", "TestCreationWithoutAStatIsAnError"), file: "store/zkstore/internal/treestore/attempt.go",
		old: " || alone && parent == nil {\n",
		new: " {\n",
	},
	{
		name: "tr-deleted-unlock-quiet", catcher: testOf("store/zkstore/curatorstore", "TestDeletedNodeIsReported"), file: "store/zkstore/internal/treestore/session.go",
		old: "	if l.takenBack(w.Seq) || broken {\n",
		new: "	if broken {\n",
	},
	{
		name: "tr-strange-ignored", catcher: testOf("store/zkstore/curatorstore", "TestUnreadableQueueIsRefused"), file: "store/zkstore/internal/treestore/view.go",
		old: "	if strange != nil {\n",
		new: "	if false {\n",
	},
	{
		name: "tr-strange-node-stays", catcher: testOf("store/zkstore/curatorstore", "TestRefusedClaimLeavesNoNode"), file: "store/zkstore/internal/treestore/attempt.go",
		old: "	if ln.strange != nil {\n",
		new: "	if false {\n",
	},
	{
		name: "tr-writes-to-the-parent", catcher: testOf("store/zkstore/curatorstore", "TestTreeOfALock"), file: "store/zkstore/internal/treestore/attempt.go",
		old: "		if a.store.layout.alone() {\n			ops",
		new: "		if true {\n			ops",
	},
	{
		name: "tr-null-data", catcher: testOf("store/zkstore/curatorstore", "TestTreeOfALock"), file: "store/zkstore/internal/treestore/call.go",
		old: "CreateContainer(path, []byte{}, zk.FlagContainer",
		new: "CreateContainer(path, []byte(\"null\"), zk.FlagContainer",
	},
	{
		name: "tr-extra-node-stays", catcher: testOf("store/zkstore/curatorstore", "TestRepeatedClaimLeavesOneNode"), file: "store/zkstore/internal/treestore/attempt.go",
		old: "		if x.is(a.id, a.claim.Seq) {\n",
		new: "		if false {\n",
	},
	{
		name: "tr-revocation-unread", catcher: testOf("store/zkstore/curatorstore", "TestRevocationIsWanted"), file: "store/zkstore/internal/treestore/notice.go",
		old: "err != nil || string(data) == revocation {",
		new: "err != nil || len(data) < 0 {",
	},
	{
		name: "tr-revokes-everyone", catcher: testOf("store/zkstore/curatorstore", "TestWaiterRevokes"), file: "store/zkstore/internal/treestore/owned.go",
		old: "stat == nil || len(data) > 0 {",
		new: "stat == nil || len(data) < 0 {",
	},
	{
		name: "tr-revokes-unasked", catcher: testOf("store/zkstore/curatorstore", "TestWaiterRevokes"), file: "store/zkstore/internal/treestore/attempt.go",
		old: "state == driver.Queued && a.store.layout.revokes()",
		new: "state == driver.Queued",
	},
	{
		name: "tr-foreign-is-ours", catcher: testOf("store/zkstore/internal/treestore", "TestContenders"), file: "store/zkstore/internal/treestore/contender.go",
		old: "	if err != nil || len(parts) > 2 || len(text) > 0 && text[0] != '-' {\n",
		new: "	if err != nil && false {\n",
	},
	{
		name: "tr-negative-unread", catcher: testOf("store/zkstore/internal/treestore", "TestContenders"), file: "store/zkstore/internal/treestore/contender.go",
		old: `	if strings.HasSuffix(rest, "--") || strings.HasSuffix(rest, "__-") { // after 2^31 claims`,
		new: `	if false {`,
	},
	{
		name: "tr-other-recipe", catcher: testOf("store/zkstore/internal/treestore", "TestStrangeChildren"), file: "store/zkstore/internal/treestore/curator.go",
		old: "		case ok && !slices.Contains(k.words(), word):\n",
		new: "		case false:\n",
	},
	{
		name: "tr-counter-runs-over", catcher: testOf("store/zkstore/internal/treestore", "TestStrangeChildren"), file: "store/zkstore/internal/treestore/curator.go",
		old: "		case ok && (n.place < 0 || n.place >= maxPlace):\n",
		new: "		case false:\n",
	},
	{
		name: "tr-same-place-waits", catcher: testOf("store/zkstore/internal/treestore", "TestRulesOfReadersAndWriters"), file: "store/zkstore/internal/treestore/lockstate.go",
		old: "func(g node) bool { return g.place == n.place }):\n		return true\n",
		new: "func(g node) bool { return g.place == n.place }):\n		return n.mode == driver.Exclusive\n",
	},
	{
		name: "tr-walk-by-bytes", catcher: testOf("store/zkstore/internal/treestore", "TestOrderOfAWalk"), file: "store/zkstore/internal/treestore/walk.go",
		old: `	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))`,
		new: `	return strings.Compare(a, b)`,
	},
	{
		name: "tr-fenced-unstated", catcher: testOf("store/zkstore/curatorstore", "TestCorrectnessNeedsFencedPeers"), file: "store/zkstore/curatorstore/store.go",
		old: "	if o.FencedPeers {\n",
		new: "	if true {\n",
	},
	{
		name: "tr-tombstone-then-created", catcher: testOf("store/zkstore/internal/treestore", "TestTombstoneComesBeforeTheCreation"), file: "store/zkstore/internal/treestore/attempt.go",
		old: "		if known.refuses(a.claim.Seq) { // since it was checked\n",
		new: "		if len(known.Left) < 0 {\n",
	},
}
