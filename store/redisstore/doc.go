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
//
// # URLs
//
// [Open] and [FromURL] take:
//
//	redis://[user[:password]@]host[:port][/database][?parameters]
//	redis-sentinel://[user[:password]@]host[:port][,host[:port]...]/master[/database][?parameters]
//	redis-cluster://[user[:password]@]host[:port][,host[:port]...][?parameters]
//
// With rediss, rediss-sentinel and rediss-cluster everything goes over TLS;
// valkey, valkeys-cluster and so on mean the same. Ports are 6379, and 26379 for
// Sentinel, if none is given. User and password are those of the server, escaped
// with % as everywhere in URLs; a password alone is written :password@. The
// parameters:
//
//	client_name        what CLIENT LIST shows
//	dial_timeout       how long connecting may take, 5s
//	read_timeout       how long an answer may take if the call sets no bound, 3s
//	pool_size          how many connections at most, 10 per CPU
//	sentinel_user      user and password of the sentinels,
//	sentinel_password  if they have their own
//	tls_ca             file with the certificates to trust, instead of the system's
//	tls_cert, tls_key  files of the client's certificate
//	tls_server_name    name to expect in the server's certificate, instead of the host
//	namespace, grace, max_ttl, buckets
//	                   settings of the namespace, as in Options: grace=true, max_ttl=30s
//	accept             codes of findings to accept, with commas between
//
// A setting that is in opts, too, must have the same value there.
//
// A URL with a password does not belong in a command line, where every user of the
// machine can read it: take it from the environment or a file.
package redisstore
