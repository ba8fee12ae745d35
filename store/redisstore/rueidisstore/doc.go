// SPDX-License-Identifier: Apache-2.0

// Package rueidisstore keeps locks in Redis or Valkey, as package redisstore does, on a
// rueidis client. It pipelines the calls of all goroutines over few connections, which
// makes it the faster of the two under load. It does not link go-redis.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{
//		InitAddress:  []string{"localhost:6379"},
//		DisableCache: true, // locks are never cached; without it the user needs CLIENT TRACKING
//	})
//	store, err := rueidisstore.New(client, nil)
//	locks, err := fencelock.New(store, nil)
//
// There is no Open: a URL is opened by package redisstore. This package is for programs that
// have a rueidis client.
//
// Package redisstore documents the guarantees and the checks. Both keep locks in the same
// way, and processes of either share a namespace.
package rueidisstore
