// SPDX-License-Identifier: Apache-2.0

// Package shard spreads lock names over independent stores, so that the rate of
// locks grows with the number of servers:
//
//	store, err := shard.New([]shard.Member{
//		{Name: "a", Store: storeA},
//		{Name: "b", Store: storeB},
//	}, nil)
//	locks, err := fencelock.New(store, nil)
//
// It is for scale, not for safety: each name lives on one member only, and while
// that member is down its names cannot be locked. For redundancy use a store on
// a server that replicates.
//
// # How it is built
//
//	"orders/42" ── score with each member's name, the highest wins ──▶ member "b"
//
//	member "a" ── store ── its shards      Shard("orders/42") = "b/" + what b's
//	member "b" ── store ── its shards                           own store knows
//	member "c" ── store ── its shards
//
// This is rendezvous hashing. The score of a name at a member depends on nothing
// but these two names, so a member that is added takes over the names it wins and
// no other name moves: about one in n. A member's name is its identity. It must
// stay the same when the member moves to another address, and must never be given
// to another member.
//
// Sessions, waiting and tokens are those of the members; a process has one session, and one
// heartbeat, on each shard of each member that it uses. While it has one it also has a
// session on every member for the marker of its list: an exclusive claim that processes
// with the same list share and others cannot get. The keep-alives of the sessions keep
// the markers, that of their member first, so no lease outlives its marker; the store has no
// lasting goroutine.
//
// # Failure cases
//
//   - A member is down: its names are unavailable, the others are not concerned.
//   - Two processes have different lists of members: the one that comes second to a member is
//     refused there, and its sessions end. Two lists may both grant while every member
//     that they share is away from one of them. Lists that share no member are not noticed.
//   - A list is changed: members are marked with Member.Change, and a name that moves is
//     refused from the first process with the next list to the last one with the earlier list;
//     docs/scaling.md has the steps.
//   - A name has moved, and its tokens now come from another server. Whether they
//     are above the earlier ones depends on the server: docs/scaling.md has it for
//     which they are.
package shard
