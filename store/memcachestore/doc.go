// SPDX-License-Identifier: Apache-2.0

// Package memcachestore keeps locks in memcached, for efficiency only: without fencing
// tokens.
//
//	store, err := memcachestore.Open(ctx, "memcached://localhost:11211", nil)
//	defer store.Close()
//	locks, err := fencelock.New(store, nil)
//
// # For efficiency only
//
// memcached is a cache. It loses everything when it restarts, it throws items away when its
// memory is full, and it has no counter that outlives either. So this store gives no
// fencing tokens, and two processes may hold one lock after any of these. Use it where
// doing work twice is merely wasteful: to warm a cache, to keep a herd off a slow backend.
// fencelock.New refuses it with Require: Correctness. Store.Check warns when items can be
// evicted.
//
// There is no queue and no push: waiters poll, and are granted in no order.
// There are no shared or weighted claims, no re-entry across processes, no
// MinHold and MaxHold, no listing, no breaking.
//
// # How it is built
//
//	session item   "fencelock:s:<id>"          a generation of the session, and what it tombstoned
//	                   ▲  ends by itself unless touched (gat): one heartbeat for all locks
//	lock item      "fencelock:l:<hash of name>"  which generation of which session, which claim
//
// A lock item names the generation of the session that holds the lock, and does not
// expire. When that generation is over the lock is free, and the next caller takes the
// item over. memcached changes one item at once, so everything else is decided by the
// order of writes to the lock item, and every write to it is conditional: add if there
// was no item, cas if there was one.
//
//	lock     get session and lock ── none ──▶ add      ── stored ──▶ granted
//	                              ── theirs, ended    ──▶ cas ──▶ granted
//	                              ── theirs ──▶ get their session ──▶ busy
//	unlock   get lock ── mine ──▶ cas with a time that is over, which removes it
//
// # Race conditions
//
//   - Two find the lock free: one add or cas is stored, the other reads again.
//   - A takes over from a dead session while B does: the second cas conflicts.
//   - The session ends between the read and the add. The lock then hangs on a
//     generation that is over, and is free to the next.
//   - A session that ended is opened again under its id. It is another generation, with
//     a new random number, so nothing of the earlier one comes back.
//   - A withdrawn claim's add is still under way (Tombstone). The claim is noted in the
//     session item, which every attempt reads first; and the lock item is written
//     to, so that an add or cas that was decided before cannot be stored any more.
//     Where there was no item, one marked "free" stays for ten minutes. A
//     write that is delayed for longer than that is stored; the lock is then taken
//     by a claim that no process knows of, until its session ends.
//   - The session item is evicted, or the server restarts: the holder is notified at
//     its next heartbeat. Until then another may hold the lock too. Nothing here
//     can prevent that.
package memcachestore
