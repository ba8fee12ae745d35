// SPDX-License-Identifier: Apache-2.0

// Package fencelock gives locks that several processes share, kept by an engine
// they already run, and says honestly what such a lock can and cannot do.
//
//	c, err := fencelock.New(store, nil) // one client per process; nil options are fine
//	defer c.Close(ctx)
//
//	err = c.Do(ctx, "orders/42", func(ctx context.Context, l *fencelock.Lease) error {
//		return save(ctx, order, l.Token()) // ctx ends if the lease is lost
//	})
//
// # Choosing
//
// First ask whether you need it. One process: use package sync. One host: use a
// file lock. One row of one database: use a conditional update. Work that is
// harmless to repeat: repeat it.
//
// Then ask what the lock is for, because the two answers need different things:
//
//   - Efficiency: doing the work twice costs time or money, nothing else. Any
//     store will do, and the everyday call is all there is to know.
//   - Correctness: doing it twice corrupts something. Set Options.Require to
//     Correctness, so that New refuses a store that cannot give it and says
//     what to change, and check the token at the resource (see Fencing).
//
// Client.Guarantees says in fields and in words what a store with your options
// promises. Three promises are made, each with its condition:
//
//   - Fenced effects are exclusive, where the store's fencing is strict.
//   - Two holders do not overlap in time, while clocks drift less than
//     Options.Drift, nobody steps them or breaks a lease by hand, and the
//     engine forgets nothing (or grants nothing new after it did: grace).
//   - Under the same conditions a holder whose process runs is told
//     Options.Margin before the store may give its lock to another.
//
// # Locking
//
// Client.Do is the everyday call. Mutex, RWMutex and Semaphore are cheap handles
// without state: make them where they are needed. An acquisition returns a
// Lease, and only a lease can be unlocked, so one holder cannot release
// another's lock. Unlock works on a context that has ended. A lease is never
// reused.
//
// Without options a lease lives until it is unlocked or its process dies, when
// the store frees it after Options.TTL. FixedLease, MaxHold and MinHold change
// that. Re-entry goes by context: locking the same name under Lease.Context, or
// under the context that Do gives, re-enters with the same token and without a
// round trip. A goroutine that locks again under another context waits for
// itself.
//
// # Waiting
//
// The context of Lock bounds the waiting only. Turns come in the order of asking
// where Guarantees says Fair; a hand-over to another process is one call and one
// push. TryLock does not wait: its *BusyError names the holder. An acquisition
// that fails leaves nothing behind; a reply that got lost is asked for again or
// cleaned up, never guessed. A store that does not answer for Options.Patience
// ends the waiting with ErrUnavailable.
//
// # Losing
//
// A lease can be lost: the store was out of reach for too long, it lost its
// memory, an operator broke the lease, or its own end came. Lease.Context then
// ends, with a cause that wraps ErrLost and the reason (ErrUnrenewed, ErrEnded,
// ErrForgotten, ErrBroken, ErrExpired). It ends at the trusted deadline at the
// latest, whatever call is under way: the instant before the last successful
// renewal was sent, plus the TTL, less the share for drift and the margin.
// Suspended time counts. Pass that context on to everything done under the lock.
//
// Unlock and Do return an error that wraps ErrLost if the lease did not last:
// somebody else may have held the lock before you were done.
//
// # Fencing
//
// No lock with a lease can stop a process that was paused at the wrong moment
// and writes late. The resource can: every lease has a Token, greater than all
// earlier ones of its name. Store it beside the data, refuse a smaller one, and
// do so in the same atomic step as the write:
//
//	UPDATE orders SET total = $1, fence = $2 WHERE id = 42 AND fence <= $2
//
// Package fence has the rule and ready-made guards, and package fencetest proves
// your own; they find the token in the context, as FromContext does, so that it
// need not be an argument everywhere. After Client.Break raise the fence to the
// token it returns.
//
// # Kinds
//
//   - Mutex: one holder. ReentrantAs re-enters across processes.
//   - RWMutex: one writer or many readers; neither starves; Downgrade.
//   - Semaphore: leases up to a limit of weight, which SetLimit changes live.
//   - LockAll: several names, all or none, without deadlock among its callers.
//   - Election: one leader; campaigns again by itself; Observe, Resign.
//   - Once: one run per scheduled occurrence, because a lock alone does not
//     keep a late replica from running it again.
//   - CountDownLatch: wait until every named party has reported.
//
// # Scale
//
// One session per process and shard carries every lease; a lease has neither
// goroutine nor timer of its own:
//
//	goroutines        client                           store
//	    │
//	    ├─ Lock a ─┐
//	    ├─ Lock a ─┼▶ line "a" ─ one claim ──▶ "a": held by session 1, token 512
//	    ├─ Lock a ─┘                               in line: session 2
//	    └─ Lock b ──▶ line "b" ─ one claim ──▶ "b": held by session 1, token 768
//	                      │
//	                   session 1 ─ one keep-alive per TTL/3 ──▶ alive until …
//
// So renewing costs the same for one lease and for a million, goroutines that
// wait for one name cost the store one claim, and among them the lease is passed
// on without a round trip, each time with a fresh token (Options.LocalHandovers
// bounds that, so that other processes get their turn).
//
// # Caveats
//
//   - Valid, Deadline and the context are about time, and a process can be
//     paused right after looking. Only the token protects a resource then.
//   - Clocks that are stepped, here or at the engine, void the promise about
//     time, not the one about fenced effects.
//   - Once does not make work happen a certain number of times. A process that
//     dies in the middle leaves work half done, and another may start it again.
//   - Inspect and BusyError show the token of the claim; the tokens of leases
//     that were passed on inside a process are up to 255 above it.
//   - A lock held while another is asked for can deadlock as in any program;
//     LockAll avoids that for names that are known together.
//   - Hooks run inline: they must be quick and must not call the client.
//
// Package recipes does the usual jobs with it, as code to copy: a cron job, a leader,
// a migration, a limit of calls, ownership of many things, a consumer, a cache.
//
// The numbered clauses behind all this, each with its test, are in docs/spec.md.
// Authors of stores need package driver, and package drivertest to check it.
package fencelock
