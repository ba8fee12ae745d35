// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// login is how a test comes to a server, or to a set of them.
type login struct {
	addr       string   // of one server,
	sentinels  []string // or of the sentinels that know it,
	nodes      []string // or of nodes of a cluster
	user, pass string
	tls        *tls.Config
	clock      *clock // what scripts see instead of the server's, if not nil
}

// library is a client library the store works with.
type library struct {
	name string
	// dial returns a store with its own client.
	dial func(l login, opts *native.Options) (*client, error)
}

// Store is the store of any library, with the methods that all have.
type Store interface {
	driver.Store
	driver.Configurer
	Check(ctx context.Context) ([]driver.Finding, error)
	ACL(user string) string
	Close() error
}

// client is a store with the client it was given.
type client struct {
	Store
	ping  func(context.Context) error
	close func()
}

// open is dial for a test: it ends with it.
func (l library) open(t testing.TB, to login, opts *native.Options) *client {
	t.Helper()
	c, err := l.dial(to, opts)
	must.OK(t, err)
	t.Cleanup(c.close)
	return c
}

var libraries = []library{{"go-redis", dialGoRedis}, {"rueidis", dialRueidis}}

func dialGoRedis(l login, opts *native.Options) (*client, error) {
	var c redis.UniversalClient
	switch {
	case l.sentinels != nil:
		c = redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: redistest.MasterName, SentinelAddrs: l.sentinels,
			Username: l.user, Password: l.pass, TLSConfig: l.tls, ContextTimeoutEnabled: true,
		})
	case l.nodes != nil:
		c = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: l.nodes, Username: l.user, Password: l.pass, TLSConfig: l.tls, ContextTimeoutEnabled: true,
		})
	default:
		c = redis.NewClient(&redis.Options{
			Addr: l.addr, Username: l.user, Password: l.pass, TLSConfig: l.tls, ContextTimeoutEnabled: true,
		})
	}
	if l.clock != nil {
		c.AddHook(l.clock)
	}
	store, err := newGoRedis(c, opts)
	return &client{store, func(ctx context.Context) error { return c.Ping(ctx).Err() }, func() { _ = c.Close() }}, err
}

func dialRueidis(l login, opts *native.Options) (*client, error) {
	o := rueidis.ClientOption{
		InitAddress: []string{l.addr}, Username: l.user, Password: l.pass, TLSConfig: l.tls, DisableCache: true,
		PipelineMultiplex: -1, // one connection, so that a ping reports whether it is good
		// The default of half a megabyte each way is a lot for so many clients.
		ReadBufferEachConn: 1 << 14, WriteBufferEachConn: 1 << 14,
	}
	switch {
	case l.sentinels != nil:
		o.InitAddress, o.Sentinel.MasterSet = l.sentinels, redistest.MasterName
	case l.nodes != nil:
		o.InitAddress = l.nodes
	default:
		o.ForceSingleClient = true
	}
	c, err := rueidis.NewClient(o)
	if err != nil {
		return nil, err
	}
	if l.clock != nil {
		c = l.clock.wrap(c)
	}
	store, err := newRueidis(c, opts)
	return &client{store, func(ctx context.Context) error { return c.Do(ctx, c.B().Ping().Build()).Error() }, c.Close}, err
}
