// SPDX-License-Identifier: Apache-2.0

// Package fencelock provides distributed locks on the server you already run. Every
// lock comes with a fencing token, a holder whose process runs is notified before another
// client can acquire its lock (see Choosing for the conditions), and one heartbeat per process
// and shard keeps any number of locks alive.
//
//	c, err := fencelock.New(store, nil) // one client per process; nil options are fine
//	defer c.Close(ctx)
//
//	err = c.Do(ctx, "orders/42", func(ctx context.Context, l *fencelock.Lease) error {
//		return save(ctx, order, l.Token()) // ctx is canceled if the lease is lost
//	})
//
// The store comes from a package of its own, made from the client you have:
//
//	store, err := redisstore.New(redisClient, nil)  // store/redisstore: Redis, Valkey, Sentinel, Cluster
//	store, err := sqlstore.New(db, nil)             // store/sqlstore: PostgreSQL, MySQL, MariaDB
//	store, err := etcdstore.New(etcdClient, nil)    // store/etcdstore
//	store, err := zkstore.New(addresses, nil)       // store/zkstore
//	store, err := memcachestore.New(address, nil)   // store/memcachestore, without tokens
//	store := memstore.New(nil)                      // store/memstore, for tests
//
// or from a URL, by [OpenStore]. Package store/redisstore/redisquorum locks on several Redis masters.
//
// # Choosing
//
// First check whether you need a distributed lock. For one process use package sync, for
// one host a file lock, for one database row a conditional update. Work that is harmless
// to repeat needs no lock.
//
// Then decide what the lock is for:
//
//   - Efficiency: a duplicate run costs time or money, nothing else. Use any store and
//     [Client.Do].
//   - Correctness: a duplicate run corrupts data. Set [Options.Require] to Correctness, so
//     that New rejects an unsuitable store and names the setting to change. Check the
//     token where the data is (see Fencing).
//
// [Client.Guarantees] returns, in fields and in words, what a store provides with your
// options:
//
//   - Guarded effects are exclusive, if the store's fencing is strict.
//   - Two holders do not overlap in time, provided that clocks drift less than
//     [Options.Drift] and are not stepped, no operator takes the lock away, the server keeps
//     its data or has a grace period, and a server that was replaced no longer writes.
//   - A running holder is notified [Options.Margin] before the store may grant its lock to
//     another process, under the same conditions. A lease with MaxHold has a margin of at
//     most a tenth of its length.
//
// # Locking
//
// [Client.Do] is the everyday call. Mutex, RWMutex and Semaphore are cheap handles
// without state: create them where you need them. An acquisition returns a
// Lease, and only a lease can be unlocked, so one holder cannot release
// another's lock. Unlock works even with a canceled context. A lease is never
// reused.
//
// Without options a lease lasts until it is unlocked. If its process dies, the store
// frees the lock after [Options.TTL]. MaxHold and MinHold change that.
//
// Locks are reentrant by context: locking the same name with [Lease.Context], or with the
// context that Do passes, re-enters with the same token and without a round trip. The
// inner lease ends with the outer one; MaxHold and MinHold have no effect on it. A
// goroutine that locks again with another context waits for itself, which is logged as a
// warning after [Options.TTL].
//
// # Waiting
//
// The context of Lock limits the waiting only. If [Guarantees.Fair] is set, waiters are
// served in order; a handoff to another process is one call and one notification.
// TryLock does not wait: its *BusyError names the holder. In a grace period of the store no call
// gets a new lock: its error is [ErrGrace], with the time that is left. A failed acquisition leaves
// nothing behind. After a lost reply the client asks again or cleans up; it never
// guesses. If the store does not answer for [Options.StoreTimeout], the acquisition fails with
// [ErrUnavailable].
//
// # Losing
//
// A lease can be lost: the store was unreachable for too long, the store lost its data,
// an operator took the lock away, or the lease reached MaxHold. [Lease.Context] is then
// canceled, with a [*LostError] as its cause, which wraps [ErrLost] and has the reason.
// This happens at the trusted deadline at the latest,
// whatever call is in flight: the instant before the last successful renewal was sent,
// plus the TTL, less the allowance for drift and the margin. Suspended time counts. Pass
// that context to everything you do under the lock.
//
// Unlock and Do return an error that wraps [ErrLost] if the lease was lost: another process
// may have held the lock before the work was done.
//
// # Fencing
//
// No lock with a lease can stop a process that is paused at the wrong moment and
// writes late. The resource can: every lease has a Token, greater than all earlier ones
// of its name. Store the token with the data and reject a smaller one, in the same atomic
// step as the write:
//
//	UPDATE orders SET total = $1, fence = $2 WHERE id = 42 AND fence <= $2
//
// If it changes no row, the write was rejected: check the number of rows. If you read the
// row first, set fence in the same way before you read: otherwise an older holder can write
// between your read and your write.
//
// Package fence has the rule and ready-made guards, which find the token in the context,
// as FromContext does. Package fencetest tests your own guard. After [Client.ForceUnlock], raise
// the fence to the token it returns.
//
// # Kinds
//
//   - Mutex: one holder. ReentrantAs re-enters across processes.
//   - RWMutex: one writer or many readers; neither starves in a store with a queue; Downgrade.
//   - Semaphore: leases up to a limit of weight, which SetLimit changes live.
//   - LockAll: several names, all or none, without deadlock among its callers.
//   - Election: one leader; campaigns again after a loss; Observe, Resign.
//   - Once: one run per scheduled occurrence. A lock alone does not keep a late replica
//     from running the job again.
//
// # Scale
//
// One session per process and shard carries every lease; a lease has neither its own
// goroutine nor its own timer:
//
//	goroutines        client                            store
//	    │
//	    ├─ Lock a ─┐
//	    ├─ Lock a ─┼▶ queue "a" ─ one claim ──▶ "a": held by session 1, token 512
//	    ├─ Lock a ─┘                                queue: session 2
//	    └─ Lock b ──▶ queue "b" ─ one claim ──▶ "b": held by session 1, token 768
//	                      │
//	                   session 1 ─ one keep-alive per TTL/3 ──▶ alive until …
//
// So renewing costs the same for one lease and for a million, goroutines that
// wait for one name cost the store one claim, and among them the lock is handed
// off without a round trip, each time with a fresh token ([Options.LocalHandoff]
// bounds that, so that waiters of other processes are served).
//
// # Caveats
//
//   - Valid, Deadline and the context are about time, and a process can be
//     paused right after the check. Only the token protects a resource then.
//   - Clocks that are stepped, here or at the server, void the promise about
//     time, not the one about fenced effects.
//   - Once does not make work happen a certain number of times. A process that
//     dies in the middle leaves work half done, and another may start it again.
//   - Inspect and [BusyError] show the token of the claim; the tokens of leases
//     that were handed off inside a process are up to 255 above it. Age and trace
//     are those of the first of these leases, and [Election.Leader] and Observe do
//     not see a leader that changes inside one process within
//     [Options.LocalHandoff].
//   - Acquiring a lock while holding another can deadlock, as in any program. LockAll
//     avoids that for names that are known together.
//   - Hooks run inline. They must be quick and must not call the client.
//
// Package examples has complete solutions to copy: a cron job, a leader, a migration, a
// limit of calls, ownership of many tenants, a consumer, a cache.
//
// The numbered clauses of the contract, each with its test, are in docs/spec.md.
// To write a store, implement package driver and test it with package drivertest.
package fencelock
