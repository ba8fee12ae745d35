// SPDX-License-Identifier: Apache-2.0

// Package setnxstore shares locks with the many libraries whose lock is a string in Redis: SET
// with NX and PX, extended and deleted only if the value is still one's own. Among them are
// redsync, bsm/redislock, redis-py, node-redlock, RedLock.net, Laravel's Cache::lock, go-zero and
// Spring Integration's RedisLockRegistry. NewRedlock shares locks with those that lock a majority
// of several servers.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store, err := setnxstore.New(client, &setnxstore.Options{Key: "locks:%s"})
//	locks, err := fencelock.New(store, nil)
//	lease, err := locks.Mutex("orders/42").Lock(ctx) // excludes SET locks:orders/42 … NX PX
//
// Use it while other services take the same locks; docs/sharing.md has the keys of the libraries
// and the limits. The other side must compare its value and set a timeout. When none is left, move to package redisstore.
//
// # For efficiency
//
// The format has neither tokens nor a queue nor messages: waiters poll, are granted in no order,
// and a server that lost its data gives a lock to the next caller at once. fencelock.New
// rejects the store with Require: Correctness.
//
// # Data loss
//
// If the server loses a part of its data, as in a failover to a replica without the last writes or
// by an eviction, the next renewal finds it: a lease that was lost is reported as lost, and a lock
// whose unlock was lost is freed. Until then two processes may hold one lock.
package setnxstore
