// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/core"
	"github.com/fencelock/fencelock/internal/testhook"
)

// Client makes locks on one store. Make one per process and share it: all its
// leases are kept by one session per shard. It is safe for concurrent use.
type Client struct {
	core   *core.Client
	store  driver.Store
	caps   driver.Caps
	opts   Options
	record *driver.Record // what every holder record begins with
	plain  *config        // of a Mutex without options, shared by all of them
}

// New returns a client for the store. A nil opts is fine. It fails if an option
// is bad or the store cannot give what [Options.Require] asks for; the error names
// what to change. It does no I/O.
func New(store driver.Store, opts *Options) (*Client, error) {
	return newClient(store, opts, clock.New(nil))
}

func init() {
	testhook.NewClient = func(store driver.Store, opts any, clk *clock.Clock) (any, error) {
		return newClient(store, opts.(*Options), clk)
	}
	testhook.CoreOf = func(client any) *core.Client { return client.(*Client).core }
}

func newClient(store driver.Store, opts *Options, clk *clock.Clock) (*Client, error) {
	if store == nil {
		return nil, errors.New("fencelock: New needs a store, for example memstore.New(nil)")
	}
	caps := store.Caps()
	withDefaults, err := opts.withDefaults(caps)
	if err != nil {
		return nil, fmt.Errorf("fencelock: %w", err)
	}
	c := &Client{
		store:  store,
		caps:   caps,
		opts:   withDefaults,
		record: &driver.Record{Owner: withDefaults.Owner, Labels: withDefaults.Labels},
	}
	c.core = core.New(c.coreConfig(clk))
	c.plain = &config{terms: driver.Terms{Weight: 1, Record: c.record}}
	if err := c.Guarantees().unmet(withDefaults.Require); err != nil {
		return nil, err
	}
	return c, nil
}

// coreConfig is the client as the core sees it.
func (c *Client) coreConfig(clk *clock.Clock) core.Config {
	config := core.Config{
		Store: c.store, Clock: clk,
		TTL: c.opts.TTL, Drift: c.opts.Drift, Margin: c.opts.Margin, CallTimeout: c.opts.CallTimeout,
		StoreTimeout: c.opts.StoreTimeout, LocalHandoff: c.opts.LocalHandoff,
		NewLease: func() *core.Lease {
			l := &Lease{c: c}
			l.core.Public = l
			return &l.core
		},
		Error: c.failed,
		Busy:  busy,
		Grace: inGrace,
		Lost:  lost,
	}
	if hooks := &c.opts.Hooks; hooks.Event != nil || hooks.AcquireWait != nil || c.opts.Logger != nil {
		config.Observer = (*observer)(c)
	}
	return config
}

// Do runs fn while holding the lock of that name: [Mutex.Do] without options. An error that wraps
// [ErrLost] means that the lease did not last to the end of fn.
func (c *Client) Do(ctx context.Context, name string, fn func(ctx context.Context, l *Lease) error) error {
	return c.Mutex(name).Do(ctx, fn)
}

// Close cancels the contexts of all leases with [ErrClosed] as their cause, makes
// every waiting call return [ErrClosed], and releases all locks. It tries again
// if the store does not answer, as long as ctx allows and at most for twice
// [Options.CallTimeout]; then it returns an error, and the locks that were not
// released end with the TTL. A store that confirmed the release and is then restored
// to older data may have the locks again, until the TTL ends. Closing again waits
// and answers as the first call does. The store and the client of its server stay open.
func (c *Client) Close(ctx context.Context) error { return c.core.Close(ctx) }

// OpenStore opens the store at a URL, for programs that learn from their configuration which
// store to use. The scheme chooses the store, and the program imports the stores it may use:
//
//	import _ "github.com/fencelock/fencelock/store/redisstore" // redis, rediss, redis-sentinel, redis-cluster, ...
//	import _ "github.com/fencelock/fencelock/store/sqlstore"   // postgres, mysql, mariadb
//
// The function Open of each package has the grammar of its URLs. The parameters namespace,
// grace, max_ttl, buckets, accept and migrate mean the same in every store that has them.
//
// Close the store after all clients on it are closed. ctx bounds the opening only. No error
// shows a secret of the URL.
func OpenStore(ctx context.Context, url string) (driver.OpenedStore, error) {
	return driver.OpenStore(ctx, url, driver.OpenOptions{})
}
