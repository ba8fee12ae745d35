// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/fencelock/fencelock/redisstore"
	"github.com/fencelock/fencelock/redisstore/rueidisstore"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// login is how a test comes to a server.
type login struct {
	addr       string
	user, pass string
	tls        *tls.Config
}

// library is a client library the store works with.
type library struct {
	name string
	// dial returns a store on a client of its own.
	dial func(l login, opts *redisstore.Options) (*client, error)
}

// client is a store with the client it was given.
type client struct {
	*redisstore.Store
	ping  func(context.Context) error
	close func()
}

// open is dial for a test: it ends with it.
func (l library) open(t testing.TB, to login, opts *redisstore.Options) *client {
	t.Helper()
	c, err := l.dial(to, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

var libraries = []library{{"go-redis", dialGoRedis}, {"rueidis", dialRueidis}}

func dialGoRedis(l login, opts *redisstore.Options) (*client, error) {
	c := redis.NewClient(&redis.Options{
		Addr: l.addr, Username: l.user, Password: l.pass, TLSConfig: l.tls, ContextTimeoutEnabled: true,
	})
	store, err := redisstore.New(c, opts)
	return &client{store, func(ctx context.Context) error { return c.Ping(ctx).Err() }, func() { _ = c.Close() }}, err
}

func dialRueidis(l login, opts *redisstore.Options) (*client, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{l.addr}, Username: l.user, Password: l.pass, TLSConfig: l.tls,
		DisableCache: true, ForceSingleClient: true,
		PipelineMultiplex: -1, // one connection, so that a ping tells whether it is good
		// The default of half a megabyte each way is a lot for so many clients.
		ReadBufferEachConn: 1 << 14, WriteBufferEachConn: 1 << 14,
	})
	if err != nil {
		return nil, err
	}
	store, err := rueidisstore.New(c, opts)
	return &client{store, func(ctx context.Context) error { return c.Do(ctx, c.B().Ping().Build()).Error() }, c.Close}, err
}
