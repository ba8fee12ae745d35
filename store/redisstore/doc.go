// SPDX-License-Identifier: Apache-2.0

// Package redisstore keeps locks in Redis or Valkey: one server, Sentinel or
// Cluster; Redis 7.0 or later, every Valkey.
//
// With your own go-redis client, which the store never closes:
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
//	store, err := redisstore.New(client, nil)
//	locks, err := fencelock.New(store, nil)
//
// With a URL; the store then owns its client:
//
//	store, err := redisstore.Open(ctx, "rediss://locks:secret@redis.example.com:6380", nil)
//	defer store.Close()
//
// For rueidis, which is faster under load, see package rueidisstore. It has the same
// options and methods, and does not link go-redis.
//
// # Guarantees
//
// Every lease has a fencing token that rises per name, even after the server lost its data.
// Whether the lock itself survives a data loss depends on the namespace. With
// Options{Grace: true} a server that restarted empty, or a replica that took over, grants
// nothing for one MaxTTL, while the holders put their leases back. Without grace a second
// holder is possible after a data loss, with a higher token.
//
// # Checks
//
// When the first lock is requested, the store checks the servers: whether keys can be
// evicted, a load balancer spreads one address over servers, a server is too old or a
// permission is missing. The store rejects settings that make locks unsafe and reports the
// others to Options.Warn, each with the setting to change. Store.Check does the same on
// demand, for a health check. Store.ACL prints the ACL line of a user that can keep locks
// and nothing else. docs/redis.md of the repository has the details.
package redisstore
