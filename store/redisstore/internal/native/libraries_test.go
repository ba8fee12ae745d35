// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

type login = redistest.Login

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
	c := l.GoRedis()
	store, err := newGoRedis(c, opts)
	return &client{store, func(ctx context.Context) error { return c.Ping(ctx).Err() }, func() { _ = c.Close() }}, err
}

func dialRueidis(l login, opts *native.Options) (*client, error) {
	c, err := l.Rueidis()
	if err != nil {
		return nil, err
	}
	store, err := newRueidis(c, opts)
	return &client{store, func(ctx context.Context) error { return c.Do(ctx, c.B().Ping().Build()).Error() }, c.Close}, err
}
