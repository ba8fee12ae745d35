// SPDX-License-Identifier: Apache-2.0

// Package rueidisstore is redisstore for those who use rueidis. It pipelines the
// calls of all goroutines over few connections, which makes it the faster one
// under load. It links no go-redis.
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
// What the store promises and what to look after is said in package redisstore:
// both keep locks in the same way, and processes of either share a namespace.
package rueidisstore
