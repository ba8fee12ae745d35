// SPDX-License-Identifier: Apache-2.0

// Package setnxstore shares locks with the many libraries whose lock is a string in Redis: SET
// with NX and PX, extended and deleted only if the value is still one's own. Among them are
// redsync on one server, bsm/redislock, redis-py, node-redlock on one server, RedLock.net,
// Laravel's Cache::lock and go-zero.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store, err := setnxstore.New(client, &setnxstore.Options{Key: "locks:%s"})
//	locks, err := fencelock.New(store, nil)
//	lease, err := locks.Mutex("orders/42").Lock(ctx) // excludes SET locks:orders/42 … NX PX
//
// Use it while other services take the same locks; docs/setnx.md has the keys of the libraries
// and the limits. The other side must compare its value and set a timeout. When none is left, move to package redisstore.
//
// # For efficiency
//
// The format has neither tokens nor a queue nor messages: waiters poll, are granted in no order,
// and a server that lost its data gives a lock to the next caller at once. fencelock.New
// rejects the store with Require: Correctness.
//
// # Known limits
//
// Renewals do not notice that the server lost a part of its data, as in a failover to a replica
// without the last writes, or by an eviction. A lease whose writes were lost is not reported as
// lost, and a release that was lost comes back and is renewed while the session lives. One session
// renews about 27,000 leases with the default TTL and a round trip of 20 ms (computed).
package setnxstore
