// SPDX-License-Identifier: Apache-2.0

// Package both makes one store of two, for the time in which a fleet moves from one to the
// other: a lock is held when both stores have granted it.
//
//	old, err := setnxstore.New(client, nil) // what the other processes use today
//	next, err := redisstore.New(client, nil) // what all of them shall use
//	store, err := both.New(both.Stores{Old: old, New: next}, nil)
//	locks, err := fencelock.New(store, nil)
//
// # Phases
//
// A fleet goes through three phases, one process after the other, and back the same way:
//
//	phase   takes              excludes
//	old     old                old and both, by the old lock
//	both    old, then next     old, by the old lock; both; next, by the next lock
//	next    next               both and next, by the next lock
//
//	process in phase old    ──▶ old ◀──┐
//	                                   ├── process in phase both
//	process in phase next   ──▶ next ◀─┘
//
// Phases may be one apart only. A process in phase old and one in phase next do not exclude
// each other: the last process of phase old must have ended before the first of phase next
// starts, and on the way back the other way round. docs/migrations/README.md has the steps.
//
// # The clauses
//
// Each clause has a test that names it.
//
//   - B1, order. Every process takes the old lock first, whichever way the fleet moves. A process
//     that waits for the next lock holds the old one, and none that holds the next lock waits
//     for the old one, so there is no deadlock.
//   - B2, exclusion. A claim is granted when both stores have granted it. No process in another
//     phase holds the lock then.
//   - B3, tokens. A token is the next store's. If that store can be given a floor (Caps.Floor), the token
//     is above the old store's for the same claim, so that a guard that has seen tokens of
//     phase old admits it. If the old store can, too, its later tokens are above this one, so that
//     a guard admits those of processes in phase old. That is why the old lock comes first:
//     its token is known when the next lock is asked for.
//   - B4, waiting. A claim waits in the queue of the old store, then, holding the old lock, in
//     that of the next store. Before it is granted after such a wait, the old store confirms that
//     it still has it. A claim that lost its position in one of them begins again.
//   - B5, giving up. A withdrawal removes the claim from both, whatever it had. A try that is granted
//     by the old store only gives that back before it returns.
//   - B6, loss. A claim that either store has ended, lost or broken is lost as a whole. The holder
//     is notified first; then the client library withdraws what the other store still has.
//   - B7, keep-alives. Each store has its own session. A renewal succeeds when both sessions are
//     kept, and the shorter TTL counts.
//   - B8, release. The next lock is released first, then the old one, so that a process that is granted
//     the old lock finds the next one free. A store that does not answer delays the other's
//     release by half of the time that the call has. What is not confirmed is repeated.
//
// # What it can do
//
// Caps are what both stores can. There is no queue over both (Caps.Queue), because processes in phase
// next do not wait in the old one. Fencing is strict only if the tokens of all phases rise together:
// both stores fence strictly and have floors. Otherwise it is best effort, because a guard knows
// nothing of processes in phase old, or rejects their tokens.
//
// # Failure cases
//
//   - One of the stores is down or slow: no lock can be acquired, and leases are lost when they could not be
//     renewed in both. During a migration a fleet depends on two servers.
//   - One of the stores loses its data: holders reclaim in that store, and keep what it gives
//     back. Without a grace period they lose their locks.
//   - A process dies: each store ends its session by itself. A waiter gets the old lock first,
//     and the next one when the longer of the two TTLs has passed.
//   - An operator breaks a lock: Break ends the grant in both. A store that cannot break keeps its
//     grant until the holder's next renewal, or its TTL if the process is dead.
//   - Two processes were given the stores in different order: each may hold what the other
//     waits for, until one of them gives up. Both leave nothing behind.
//   - A process of phase next starts while one of phase old runs: they do not exclude each other. No
//     store can find out.
package both
