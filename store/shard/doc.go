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
// The store itself has no state and no goroutine. Sessions, waiting and tokens
// are those of the members; a process has one session, and one heartbeat, on each
// shard of each member that it uses.
//
// # Failure cases
//
//   - A member is down: its names are unavailable, the others are not concerned.
//   - Two processes have different lists of members: a name that they see at
//     different members has two holders, and their tokens come from two counters.
//     Nothing here can notice that. So a list is changed in two steps, with
//     Member.Moving in between; docs/shard.md has the recipe.
//   - A name has moved, and its tokens now come from another server. Whether they
//     are above the earlier ones depends on the server: docs/shard.md has it for
//     which they are.
package shard
