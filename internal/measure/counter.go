// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// counter is a store that notes the calls of each shard while told to.
type counter struct {
	driver.Store
	mu    sync.Mutex
	on    bool
	calls map[string][]call
}

// call is one call that was sent.
type call struct {
	at   time.Time
	beat bool // a keep-alive
}

// Open implements driver.Store.
func (c *counter) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Life, error) {
	s, life, err := c.Store.Open(ctx, req)
	if err != nil {
		return nil, life, err
	}
	return &counted{s, c, req.Shard}, life, nil
}

func (c *counter) note(shard string, beat bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on && (beat || len(c.calls[shard]) > 0) { // begin with a keep-alive
		c.calls[shard] = append(c.calls[shard], call{time.Now(), beat})
	}
}

// renewals waits until every shard has renewed often enough and returns the
// calls per period and shard.
func (c *counter) renewals(ctx context.Context, shards int) (float64, error) {
	c.mu.Lock()
	c.on = true
	c.mu.Unlock()
	deadline := time.Now().Add(2 * rounds * leaseTTL)
	for time.Now().Before(deadline) && wait(ctx, leaseTTL/100) {
		if v, ok := c.seen(shards); ok {
			return v, nil
		}
	}
	return 0, fmt.Errorf("measure: fewer than %d renewals in %v", rounds, 2*rounds*leaseTTL)
}

// seen returns the mean over the shards once each has all its rounds.
func (c *counter) seen(shards int) (mean float64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) < shards {
		return 0, false
	}
	for _, calls := range c.calls {
		last, beats := 0, -1
		for i, call := range calls {
			if call.beat && beats < rounds {
				last = i
				beats++
			}
		}
		if beats < rounds {
			return 0, false
		}
		mean += perPeriod(calls[:last+1]) / float64(len(c.calls))
	}
	return mean, true
}

// counted is a session of a counter.
type counted struct {
	driver.Session
	c     *counter
	shard string
}

// KeepAlive implements driver.Session.
func (s *counted) KeepAlive(ctx context.Context) (driver.Life, error) {
	s.c.note(s.shard, true)
	return s.Session.KeepAlive(ctx)
}

// Attempt implements driver.Session.
func (s *counted) Attempt(ctx context.Context, cl *driver.Claim) (driver.Outcome, error) {
	s.c.note(s.shard, false)
	return s.Session.Attempt(ctx, cl)
}

// Withdraw implements driver.Session.
func (s *counted) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	s.c.note(s.shard, false)
	return s.Session.Withdraw(ctx, w)
}

// Close implements driver.Session. It does nothing: the store is thrown away,
// and emptying it first would take seconds.
func (s *counted) Close(context.Context) error { return nil }
