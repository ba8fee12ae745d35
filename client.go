// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
)

// Client makes locks on one store. Make one per process and share it: all its
// leases hang on one session per shard. It is safe for concurrent use.
type Client struct {
	store  driver.Store
	caps   driver.Caps
	opts   Options
	clock  *clock.Clock
	record *driver.Record // what every holder record begins with
	plain  *wish          // of a Mutex without options, shared by all of them

	waiters sync.Pool // of *waiter

	done chan struct{} // closed by Close

	mu     sync.Mutex
	closed bool
	shards map[string]*shard
	wg     sync.WaitGroup // session loops and settlers
}

// New returns a client for the store. A nil opts is fine. It fails if an option
// is bad or the store cannot give what Options.Require asks for; the error says
// what to change. It does no I/O.
func New(store driver.Store, opts *Options) (*Client, error) {
	return newClient(store, opts, clock.New(nil))
}

func newClient(store driver.Store, opts *Options, clk *clock.Clock) (*Client, error) {
	if store == nil {
		return nil, errors.New("fencelock: New needs a store, for example memstore.New(nil)")
	}
	caps := store.Caps()
	settled, err := opts.settled(caps)
	if err != nil {
		return nil, fmt.Errorf("fencelock: %w", err)
	}
	c := &Client{
		store:  store,
		caps:   caps,
		opts:   settled,
		clock:  clk,
		record: &driver.Record{Owner: settled.Owner, Labels: settled.Labels},
		done:   make(chan struct{}),
		shards: map[string]*shard{},
	}
	c.plain = &wish{terms: driver.Terms{Weight: 1, Record: c.record}}
	if err := c.Guarantees().unmet(settled.Require); err != nil {
		return nil, err
	}
	return c, nil
}

// Do runs fn while holding the lock of that name. It waits for the lock as long
// as ctx allows. fn's context ends, with the reason as its cause, when ctx ends
// or the lease is lost; fn should then stop. Do unlocks when fn returns or
// panics. The error joins fn's and the unlock's, so errors.Is(err, ErrLost)
// tells that the lease did not last to the end of fn.
func (c *Client) Do(ctx context.Context, name string, fn func(ctx context.Context, l *Lease) error, opts ...Option) error {
	l, err := c.Mutex(name, opts...).Lock(ctx)
	if err != nil {
		return err
	}
	return l.do(ctx, fn)
}

// do runs fn under the lease and unlocks it.
func (l *Lease) do(ctx context.Context, fn func(ctx context.Context, l *Lease) error) (err error) {
	ctx, stop := l.bind(ctx)
	defer stop()
	defer func() {
		// Also when fn panics: the lock is given back and the panic goes on.
		if uerr := l.Unlock(ctx); uerr != nil {
			err = errors.Join(err, uerr)
		}
	}()
	return fn(ctx, l)
}

// Close ends the contexts of all leases with ErrClosed as their cause, makes
// everyone who waits return ErrClosed, and gives all locks back, which ctx
// bounds. Whatever could not be given back ends with its TTL. The store and
// the engine's client stay open.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.done)
	}
	shards := make([]*shard, 0, len(c.shards))
	for _, sh := range c.shards {
		shards = append(shards, sh)
	}
	c.mu.Unlock()
	for _, sh := range shards {
		sh.close()
	}
	done := make(chan struct{})
	go func() {
		c.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return &Error{Op: "close", Engine: c.caps.Engine, Err: ctxError(ctx),
			Hint: fmt.Sprintf("locks not given back end by themselves within %v", c.opts.TTL)}
	}
}

// shard returns what this client knows of the shard that keeps name.
func (c *Client) shard(name string) *shard {
	id := c.store.Shard(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	sh := c.shards[id]
	if sh == nil {
		sh = &shard{c: c, id: id, closed: c.closed, lines: map[string]*line{}}
		c.shards[id] = sh
	}
	return sh
}

// background starts a goroutine that Close waits for. It returns false if the
// client is closed.
func (c *Client) background(fn func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Go(fn)
	return true
}
