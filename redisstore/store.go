// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"errors"

	"github.com/fencelock/fencelock/redisstore/internal/face"
	"github.com/redis/go-redis/v9"
)

// Options are the settings of a namespace, and of this process; nil stands for the
// defaults. All clients of a namespace must use the same of the first four: they are
// kept in the store, and a client with others is refused.
//
//   - Namespace: the prefix of all keys and channels, "fencelock" by default.
//   - MaxTTL: the longest TTL of a session, and how long grace lasts; one minute
//     by default.
//   - Grace: a server that lost its memory grants nothing until every earlier
//     session must have ended, so that holders keep their leases; off by default.
//   - Buckets: the number of hash slots names are spread over; 1 by default, 32
//     on a cluster.
//   - Warn: is told what is wrong with the servers, once each; by default log/slog
//     is.
//   - Accept: codes of findings (see fencelock.Finding) that are known and accepted.
//
// It is an alias so that users of another client library need not link this one.
type Options = face.Options

// Store is a store on Redis or Valkey. Make one with New or Open. Besides the
// methods of driver.Store it has Check, which tells what is wrong with the servers
// behind it, ACL, which tells the permissions it needs, and Close.
type Store = face.Store

// New returns a store that uses the client: a *redis.Client for one server, a
// *redis.Client from redis.NewFailoverClient for Sentinel, a *redis.ClusterClient
// for a cluster. The client stays the caller's; the store never closes it. A nil
// opts is fine. New does no I/O.
//
// When the first session is opened, which is when the first lock is asked for, the
// store looks at the servers as Store.Check does. Whatever has the severity Danger,
// but for a replica, makes that fail with the reason and the setting to change
// (driver.ErrRefused), unless its code is in Options.Accept. The rest goes to
// Options.Warn.
func New(client redis.UniversalClient, opts *Options) (*Store, error) {
	return newStore(client, opts, nil)
}

func newStore(client redis.UniversalClient, opts *Options, closeClient func() error) (*Store, error) {
	cluster := false
	switch client.(type) {
	case nil:
		return nil, errors.New("redisstore: New needs a client, for example redis.NewClient(&redis.Options{Addr: addr})")
	case *redis.Ring:
		return nil, errors.New("redisstore: a redis.Ring moves names to other servers when one is down, which makes two holders; use one client per server, or a cluster")
	case *redis.ClusterClient:
		cluster = true
	}
	return face.New(&goRedis{client: client, cluster: cluster}, opts, closeClient)
}
