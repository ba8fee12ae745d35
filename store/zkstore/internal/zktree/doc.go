// SPDX-License-Identifier: Apache-2.0

// Package zktree keeps locks as nodes of ZooKeeper's tree, for the packages zkstore and
// curatorstore: connections, sessions, attempts, waiting and inspection are the same for both. A
// Layout is what differs: where a lock is, what the nodes of its claims are called, and which other
// programs may have nodes there.
package zktree
