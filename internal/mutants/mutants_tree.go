// SPDX-License-Identifier: Apache-2.0

package main

// treeMutants break locks that other programs share in ZooKeeper's tree.
var treeMutants = []mutant{
	{
		name: "tr-deleted-unheard", catcher: testOf("store/zkstore/curatorstore", "TestDeletedNodeIsReported"), file: "store/zkstore/internal/treestore/owned.go",
		old: "	if e := l.claims[seq]; e.granted {\n",
		new: "	if false {\n",
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
		name: "tr-strange-node-stays", catcher: testOf("store/zkstore/curatorstore", "TestUnreadableQueueIsRefused"), file: "store/zkstore/internal/treestore/attempt.go",
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
		name: "tr-extra-node-stays", catcher: testOf("store/zkstore/curatorstore", "TestLostReplyLeavesOneNode"), file: "store/zkstore/internal/treestore/attempt.go",
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
}
