// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/redisstore/internal/adapt"
	"github.com/fencelock/fencelock/redisstore/internal/face"
	"github.com/redis/go-redis/v9"
)

// Open connects to the server at a URL and returns a store that owns its client:
// Store.Close closes it. It looks at the servers, as New does later, so that a wrong
// address or password, or a server that cannot keep locks, is told now. It gives up
// when ctx ends; later the store has nothing to do with ctx. Errors never show a
// password.
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
//
// A URL with a password does not belong in a command line, where every user of the
// machine can read it: take it from the environment or a file.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	t, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	client := t.client()
	silent := func(err error) error {
		return fmt.Errorf("redisstore: open %s: %w", strings.Join(t.addrs, ","), err)
	}
	if err := answers(ctx, client); err != nil {
		abandon(ctx, client)
		return nil, silent(err)
	}
	s, err := newStore(client, opts, client.Close)
	if err == nil {
		err = face.Begin(ctx, s)
		if errors.Is(err, driver.ErrUnavailable) { // a refusal names the server itself
			err = silent(err)
		}
	}
	if err != nil {
		abandon(ctx, client)
		return nil, err
	}
	return s, nil
}

// abandon closes a client, and leaves it to close by itself when ctx ends: a client of
// Sentinel does not close before a dial under way is over.
func abandon(ctx context.Context, client redis.UniversalClient) {
	_, _ = adapt.Within(ctx, func() (struct{}, error) { return struct{}{}, client.Close() })
}

// answers asks the server whether it is there.
func answers(ctx context.Context, client redis.UniversalClient) error {
	_, err := adapt.Within(ctx, func() (string, error) {
		pong, err := client.Ping(ctx).Result()
		return pong, classify(ctx, err)
	})
	return err
}

// client makes the client for a target. It does no I/O.
func (t *target) client() redis.UniversalClient {
	switch t.kind {
	case "sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: t.master, SentinelAddrs: t.addrs, Username: t.user, Password: t.pass, DB: t.db,
			SentinelUsername: t.sentinel.user, SentinelPassword: t.sentinel.pass,
			ClientName: t.clientName, TLSConfig: t.tls, DialTimeout: t.dial, ReadTimeout: t.read,
			PoolSize: t.poolSize, ContextTimeoutEnabled: true,
		})
	case "cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: t.addrs, Username: t.user, Password: t.pass,
			ClientName: t.clientName, TLSConfig: t.tls, DialTimeout: t.dial, ReadTimeout: t.read,
			PoolSize: t.poolSize, ContextTimeoutEnabled: true,
		})
	}
	return redis.NewClient(&redis.Options{
		Addr: t.addrs[0], Username: t.user, Password: t.pass, DB: t.db,
		ClientName: t.clientName, TLSConfig: t.tls, DialTimeout: t.dial, ReadTimeout: t.read,
		PoolSize: t.poolSize, ContextTimeoutEnabled: true,
	})
}
