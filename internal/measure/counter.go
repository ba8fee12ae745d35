// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Counter is a driver.Store that counts what the sessions of another store do. It is the
// one wrapper for that: tests and figures that count keep-alives use it.
type Counter struct {
	driver.Store
	// abandon leaves sessions open on Close: the store is thrown away, and emptying
	// it first would take seconds.
	abandon bool

	mu       sync.Mutex
	renewals int
	renewed  chan struct{}     // closed and replaced with each renewal
	calls    map[string][]call // of each shard; nil if they are not recorded
}

// call is one call that was sent.
type call struct {
	at        time.Time
	keepAlive bool
}

// NewCounter returns a store that counts, and leaves everything else to store.
func NewCounter(store driver.Store) *Counter {
	return &Counter{Store: store, renewed: make(chan struct{})}
}

// Open implements driver.Store.
func (c *Counter) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if before, ok := req.Before.(*counted); ok {
		req.Before = before.Session
	}
	s, renewal, err := c.Store.Open(ctx, req)
	if err != nil {
		return nil, renewal, err
	}
	return &counted{s, c, req.Shard}, renewal, nil
}

// Renewals returns how many keep-alives have succeeded.
func (c *Counter) Renewals() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renewals
}

// Await waits until n more keep-alives have succeeded.
func (c *Counter) Await(ctx context.Context, n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for until := c.renewals + n; c.renewals < until; {
		renewed := c.renewed
		c.mu.Unlock()
		select {
		case <-renewed:
			c.mu.Lock()
		case <-ctx.Done():
			c.mu.Lock()
			return fmt.Errorf("measure: %d keep-alives are missing: %w", until-c.renewals, ctx.Err())
		}
	}
	return nil
}

func (c *Counter) sent(shard string, keepAlive bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls != nil && (keepAlive || len(c.calls[shard]) > 0) { // begin with a keep-alive
		c.calls[shard] = append(c.calls[shard], call{time.Now(), keepAlive})
	}
}

func (c *Counter) succeeded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewals++
	close(c.renewed)
	c.renewed = make(chan struct{})
}

// callsPerPeriod waits until every shard has renewed often enough and returns the
// calls per period and shard.
func (c *Counter) callsPerPeriod(ctx context.Context, shards int) (float64, error) {
	c.mu.Lock()
	c.calls = map[string][]call{}
	c.mu.Unlock()
	deadline := time.Now().Add(2 * rounds * leaseTTL)
	for time.Now().Before(deadline) && wait(ctx, leaseTTL/100) {
		if v, ok := c.recorded(shards); ok {
			return v, nil
		}
	}
	return 0, fmt.Errorf("measure: fewer than %d renewals in %v", rounds, 2*rounds*leaseTTL)
}

// recorded returns the mean over the shards once each has all its rounds.
func (c *Counter) recorded(shards int) (mean float64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) < shards {
		return 0, false
	}
	for _, calls := range c.calls {
		last, keepAlives := 0, -1
		for i, call := range calls {
			if call.keepAlive && keepAlives < rounds {
				last = i
				keepAlives++
			}
		}
		if keepAlives < rounds {
			return 0, false
		}
		mean += perPeriod(calls[:last+1]) / float64(len(c.calls))
	}
	return mean, true
}

// counted is a session of a Counter.
type counted struct {
	driver.Session
	c     *Counter
	shard string
}

// KeepAlive implements driver.Session.
func (s *counted) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	s.c.sent(s.shard, true)
	renewal, err := s.Session.KeepAlive(ctx)
	if err == nil {
		s.c.succeeded()
	}
	return renewal, err
}

// Attempt implements driver.Session.
func (s *counted) Attempt(ctx context.Context, cl *driver.Claim) (driver.Outcome, error) {
	s.c.sent(s.shard, false)
	return s.Session.Attempt(ctx, cl)
}

// Withdraw implements driver.Session.
func (s *counted) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	s.c.sent(s.shard, false)
	return s.Session.Withdraw(ctx, w)
}

// Close implements driver.Session.
func (s *counted) Close(ctx context.Context) error {
	if s.c.abandon {
		return nil
	}
	return s.Session.Close(ctx)
}
