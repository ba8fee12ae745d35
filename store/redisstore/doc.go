// SPDX-License-Identifier: Apache-2.0

// Package redisstore keeps locks in Redis or Valkey: one server, Sentinel or
// Cluster; Redis 7.0 or later, every Valkey.
//
// With a go-redis client of one's own, which stays one's own:
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
//	store, err := redisstore.New(client, nil)
//	locks, err := fencelock.New(store, nil)
//
// Without one, by URL; the store then owns its client:
//
//	store, err := redisstore.Open(ctx, "rediss://locks:secret@redis.example.com:6380", nil)
//	defer store.Close()
//
// For rueidis, which is faster under load, see package rueidisstore beside this
// one. It has the same options and methods, and links no go-redis.
//
// # What is promised
//
// Every lease has a fencing token that rises per name, also after the server lost
// its memory. Whether the lock itself outlives that depends on the namespace: with
// Options{Grace: true} a server that restarted empty, or a replica that took over,
// grants nothing for one MaxTTL, while the holders put their leases back. Without
// grace a second holder is possible then, with a higher token.
//
// # What to look after
//
// When the first lock is asked for, the store looks at the servers: whether keys can
// be evicted, a load balancer spreads one address over servers, a server is too old or
// a permission is missing. What makes locks unsafe is refused, the rest goes to
// Options.Warn, each with the setting to change. Store.Check does the same on demand,
// for a health check. Store.ACL prints the ACL line of a user that can keep locks and
// nothing else. docs/redis.md of the repository has the details.
package redisstore
