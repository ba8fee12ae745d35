// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/redis/rueidis"
)

// dedicated is a connection that somebody has to itself.
type dedicated struct {
	conn    rueidis.DedicatedClient
	release func()
}

// dedicate asks for a connection. rueidis waits until the pool has one, for ever if
// need be, and nobody can end that wait; so a goroutine waits.
func dedicate(client rueidis.Client) <-chan dedicated {
	coming := make(chan dedicated, 1)
	go func() {
		conn, release := client.Dedicate()
		coming <- dedicated{conn, release}
	}()
	return coming
}

// dedicateWithin returns a connection, or an error when ctx ends before there is one.
func dedicateWithin(ctx context.Context, client rueidis.Client) (dedicated, error) {
	coming := dedicate(client)
	select {
	case d := <-coming:
		return d, nil
	case <-ctx.Done():
		go func() { (<-coming).release() }() // whenever it comes
		return dedicated{}, fmt.Errorf("redisstore: %w: no connection is to be had; rueidis.ClientOption.BlockingPoolSize says how many there are: %w",
			driver.ErrUnavailable, ctx.Err())
	}
}

// spare is how long one waits for a connection that one can do without. A new one
// takes a few round trips to make.
const spare = 500 * time.Millisecond

// pool is who has connections of the client's blocking pool to itself. A subscription
// comes first: without a line calls are slower, without a subscription a hand-over is
// noticed only when somebody looks.
type pool struct {
	wanted atomic.Int64 // subscriptions that have waited for long
	mu     sync.Mutex
	lines  map[*line]struct{} // that have a connection, or wait for one
}

// forSubscription returns a connection, and takes one from a line if none is free.
func (a *adapter) forSubscription(ctx context.Context) (dedicated, error) {
	got := make(chan struct{})
	defer close(got)
	go func() {
		again := time.NewTicker(spare)
		defer again.Stop()
		for waited := false; ; {
			select {
			case <-got:
				if waited {
					a.pool.wanted.Add(-1)
				}
				return
			case <-again.C:
				if !waited {
					waited = true
					a.pool.wanted.Add(1)
				}
				a.pool.recall()
			}
		}
	}()
	return dedicateWithin(ctx, a.client)
}

// recall makes the lines that nobody uses give up their connections. Those in use do so
// when they see that somebody wants one.
func (p *pool) recall() {
	p.mu.Lock()
	var lines []*line
	for l := range p.lines {
		lines = append(lines, l)
	}
	p.mu.Unlock()
	for _, l := range lines {
		if l.mu.TryLock() {
			l.drop()
			l.mu.Unlock()
		}
	}
}

func (p *pool) enter(l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines == nil {
		p.lines = map[*line]struct{}{}
	}
	p.lines[l] = struct{}{}
}

func (p *pool) leave(l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.lines, l)
}
