// SPDX-License-Identifier: Apache-2.0

// Package both makes one store of two, for the time in which a fleet moves from one to the
// other: a lock is held when both stores have granted it.
//
//	old, err := setnxstore.New(client, nil) // what the other processes use today
//	next, err := redisstore.New(client, nil) // the new one, which all of them shall use
//	store, err := both.New(both.Stores{Old: old, New: next}, nil)
//	locks, err := fencelock.New(store, nil)
//
// # Phases
//
// A fleet goes through three phases, one process after the other, and back the same way:
//
//	phase   takes              excludes
//	old     old                old and both, by the old lock
//	both    old, then new      old, by the old lock; both; new, by the new lock
//	new     new                both and new, by the new lock
//
//	process in phase old    ──▶ old ◀──┐
//	                                   ├── process in phase both
//	process in phase new    ──▶ new ◀──┘
//
// Phases may be one apart only. A process in phase old and one in phase new do not exclude
// each other: the last process of phase old must have ended before the first of phase new
// starts, and on the way back the other way round. docs/migrations.md has the steps.
//
// # The clauses
//
// Each clause has a test that names it.
//
//   - B1, order. Every process takes the old lock first, whichever way the fleet moves. A process
//     that waits for the new lock holds the old one, and none that holds the new lock waits
//     for the old one, so there is no deadlock.
//   - B2, exclusion. A claim is granted when both stores have granted it. No process in another
//     phase holds the lock then.
//   - B3, tokens. A token is the new store's. If that store can be given a floor (Caps.Floor), the token
//     is above the old store's for the same claim, so that a guard that has seen tokens of
//     phase old admits it. If the old store can, too, its later tokens are above this one, so that
//     a guard admits those of processes in phase old. That is why the old lock comes first:
//     its token is known when the new lock is asked for.
//   - B4, waiting. A claim waits in the queue of the old store, then, holding the old lock, in
//     that of the new store. Before it is granted after such a wait, the old store confirms that
//     it still has it, with the same token. A claim that lost its position in one of them begins again.
//   - B5, giving up. A withdrawal removes the claim from both, whatever it had. A try that is granted
//     by one of the stores only gives that back before it returns.
//   - B6, loss. A claim that either store has ended, lost or broken is lost as a whole. The holder
//     is notified first. What the other store still has is withdrawn a margin later (Options.Margin), or at once
//     if the claim was broken.
//   - B7, keep-alives. Each store has its own session. A renewal succeeds when both sessions are
//     kept, and the shorter TTL counts.
//   - B8, release. The new lock is released first, then the old one, so that a process that is granted
//     the old lock finds the new one free. A store that does not answer delays the other's
//     release by half of the time that the call has. What is not confirmed is repeated.
//   - B9, holds. MinHold and MaxHold count from the grant of both stores. The old store is not given them: this process
//     keeps the old lock for the rest of a MinHold when it releases it, and ends the old grant at its MaxHold. So a process in
//     phase old may acquire the lock within a MinHold if the holder's session ended without an unlock (clause H3).
//   - B10, breaking. Break ends the grant in both stores, first in the old one, and can be repeated after a lost
//     reply. If both have floors, the fence is above the earlier tokens of both and below their later ones.
//   - B11, marks. The mark of a withdrawal with KeepFor is left in both stores. If one of them loses it before the next
//     renewal, and gives the claim back by its grace period, the mark is left again. Without one the mark may stay in the other only.
//   - B12, grace. While the new store is in a grace period, a claim that is not granted neither holds the old lock nor waits
//     for it, so that processes in phase old work on. It begins again after the grace period, behind those that came meanwhile. A
//     claim that meets the beginning of a grace period gives the old lock back as soon as it knows.
//
// # What it can do
//
// Caps are what both stores can. There is no queue over both (Caps.Queue), because processes in phase
// new do not wait in the old one: a process of phase new that comes later may be granted the lock earlier than one that
// waits for the old lock, and the other way round. Attempt still answers Queued if the claim waits in a queue of one store.
//
// Fencing is strict only if the tokens of all phases rise together: both stores fence strictly and have
// floors, and the old store is durable, because a floor is lost with its data. Otherwise it is best effort: a guard
// knows nothing of processes in phase old, or rejects their tokens.
//
// # Cost
//
//   - An acquisition is two calls one after the other, and three if the old store's tokens are raised or the claim waited. All
//     of them share one Options.CallTimeout: give it three times what the slower store needs.
//   - The first acquisition of a session makes one more call, to learn whether the new store is in a grace period, and so does every
//     one in a grace period.
//   - There is a session in each store for each pair of shards that is in use. On a Redis Cluster the stores of other
//     formats have a shard per slot: a process that locks many names keeps many sessions alive.
//   - List makes one Inspect for each lock that it returns, several at once. A lock with readers in several phases that are granted or
//     released during the listing may be missing or be listed twice.
//   - Inspect and the answer of a store show Linger of a claim that holds the old lock and waits for the new one: a try of a
//     process in phase old may wait for the notice as if the lock were idle.
//
// # Failure cases
//
//   - One of the stores is down or slow: no lock can be acquired, and leases are lost when they could not be
//     renewed in both. During a migration a fleet depends on two servers.
//   - One of the stores loses its data: holders reclaim in that store, and keep what it gives
//     back. Without a grace period they lose their locks.
//   - A process dies: each store ends its session by itself. A waiter gets the old lock first,
//     and the new one when the longer of the two TTLs has passed.
//   - An operator breaks a lock: Break ends the grant in both. A store that cannot break keeps its
//     grant until the holder's next renewal, or its TTL if the process is dead. The command opens one store by its
//     URL: break the lock in the old store, then in the new one. Either ends the lease of a holder that lives.
//   - Two processes were given the stores in different order: each may hold what the other
//     waits for, until one of them gives up. Both leave nothing behind.
//   - A process of phase new starts while one of phase old runs: they do not exclude each other. No
//     store can find out.
package both
