// SPDX-License-Identifier: Apache-2.0

// Package redissonstore shares locks with Java services that use Redisson: a
// fencelock.Mutex and an RLock or RFencedLock of the same name are one lock.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store, err := redissonstore.New(client, nil)
//	locks, err := fencelock.New(store, nil)
//	lease, err := locks.Mutex("orders/42").Lock(ctx) // excludes redisson.getLock("orders/42")
//
// Use it while Java services take the same locks; docs/sharing.md has the limits and the
// versions it is tested with. When no Java service is left, move to package redisstore.
//
// # For efficiency
//
// The format has neither a session nor a queue, and Redisson gives a lock that the server has
// lost to the next caller at once. So there is no grace, waiters are granted in no order, and
// fencelock.New rejects the store with Require: Correctness. Tokens continue the sequence of
// RFencedLock; a Java thread that locks by getLock has no token, and no guard can reject it.
//
// Mutex, LockAll, Election, Once, MinHold and MaxHold work. RWMutex works in a store with
// Options.ReadWrite, which shares RReadWriteLocks. Semaphore, ReentrantAs, Linger and List do
// not work in this format: they return ErrUnsupported.
//
// # Data loss
//
// If the server loses a part of its data, as in a failover to a replica without the last writes or
// by an eviction, the next renewal finds it: a lease that was lost is reported as lost, and a lock
// whose unlock was lost is freed. Until then two processes may hold one lock.
package redissonstore
