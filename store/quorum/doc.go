// SPDX-License-Identifier: Apache-2.0

// Package quorum makes one store of several independent ones: a lock is held when a
// majority of them agrees, so a minority may fail, stall, or lose its data. It is Redlock
// with fencing tokens, and it is a driver.Store, so sessions, renewal, waiting, loss
// and every kind of lock come from the client library.
//
//	store, err := quorum.New([]quorum.Node{
//		{Name: "a", Store: a}, {Name: "b", Store: b}, {Name: "c", Store: c},
//	}, nil)
//	client, err := fencelock.New(store, nil)
//
// # How a claim wins
//
// Every call goes to all nodes at once. A node's vote is the token it granted with.
// A claim has won when a majority granted it with one and the same token:
//
//	client          a        b        c
//	  ├─ attempt, not below 768 ─▶│        │
//	  │◀── 768 ───────┤        │        │
//	  │◀── 768 ────────────────┤        │     granted, token 768: one round trip
//	  │◀── 768 ─────────────────────────┤     late: it counts too
//
// Nodes agree because the client asks for a token above every one it has seen. If
// they do not, because they have heard of different claims, the client asks those
// that granted to lift their token above all of them, and counts those that then
// have the same: two round trips. Why this gives every grant its own token, and
// every later one a higher one, without any clock while no node loses its data, is in
// docs/how-it-works.md.
//
// # Background work
//
//   - What is in flight when a call is decided is not canceled. It counts when it
//     comes, or is given back.
//   - A release waits, on each node, for the attempt that is in flight there, and goes
//     to all nodes.
//   - With every keep-alive, nodes are repaired: a session that a node lost is opened
//     again, what the node lost is put back, and claims that it lacks are put on it (it is
//     joined), so that the next node may fail.
//
// # Failure cases
//
//   - A node is silent: no call waits for it while a majority answers. It is left out
//     until it answers a keep-alive.
//   - A node loses its data: with grace it grants nothing new until every earlier session must
//     have ended, and holders are put back in that time. This is the delayed restart of
//     Redlock, without an operator.
//   - All nodes lose their data at once: as one store with grace.
//   - A node's clock jumps: a claim that has more than a bare majority is repaired.
//     With a bare majority another claim may be granted in time; its token is higher.
//   - Two claims split the nodes: each gives way after a random time.
//   - Clients use different lists of nodes: the client that comes second to a node is refused
//     there, and its session ends. Two lists whose majorities do not meet may both
//     grant until then: while the nodes they share are away from one of them.
//
// # What it cannot do
//
// There is no queue over all nodes: claims are granted in no order, though they are queued
// on each node and pushes hand a lock over. A limit, that of a semaphore, cannot be
// kept by majorities: claims with one need every node.
//
// docs/quorum.md says how to use it, and package model has the rules.
package quorum
