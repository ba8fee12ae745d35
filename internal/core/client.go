// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
)

// Client is the machine of one fencelock.Client.
type Client struct {
	opts  Config
	store driver.Store
	caps  driver.Caps
	clock *clock.Clock

	waiters sync.Pool // of *waiter

	done chan struct{} // closed by Close

	mu       sync.Mutex
	closed   bool
	closeErr error // what Close returns if the store did not confirm
	shards   map[string]*Shard
	wg       sync.WaitGroup // what Background started
}

// New returns a client. It does no I/O.
func New(config Config) *Client {
	return &Client{
		opts:   config,
		store:  config.Store,
		caps:   config.Store.Caps(),
		clock:  config.Clock,
		done:   make(chan struct{}),
		shards: map[string]*Shard{},
	}
}

// Close ends all leases with ErrClosed, makes every waiter return ErrClosed, and
// gives all locks back.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.done)
	}
	shards := make([]*Shard, 0, len(c.shards))
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
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.closeErr
	case <-ctx.Done():
		return c.notClosed(CtxError(ctx))
	}
}

// notClosed is the error of a Close that is not confirmed.
func (c *Client) notClosed(err error) error {
	return c.fail(Failure{Op: "close", Err: err,
		Hint: fmt.Sprintf("locks not given back end by themselves within %v", c.opts.TTL)})
}

// Closed reports whether Close was called.
func (c *Client) Closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Shard returns what this client knows of the shard that keeps name.
func (c *Client) Shard(name string) *Shard {
	id := c.store.Shard(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	sh := c.shards[id]
	if sh == nil {
		sh = &Shard{c: c, id: id, closed: c.closed, queues: map[string]*queue{}}
		c.shards[id] = sh
	}
	return sh
}

// Background starts a goroutine that Close waits for: the loop of a session, a cleanup,
// or an unlock that no caller waits for. It returns false if the client is closed.
func (c *Client) Background(fn func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Go(fn)
	return true
}

// fail makes an error of the API.
func (c *Client) fail(f Failure) error { return c.opts.Error(f) }

// watched reports whether events are observed: to build one costs.
func (c *Client) watched() bool { return c.opts.Observer != nil }

func (c *Client) emit(e Event) { c.opts.Observer.Event(e) }

func (c *Client) emitSession(s *session, kind EventKind, left time.Duration, err error) {
	if c.watched() {
		c.emit(Event{Kind: kind, Shard: s.sh.id, Session: s.id, Left: left, Err: err})
	}
}
