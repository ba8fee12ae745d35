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

// dedicated is a connection that one user has to itself.
type dedicated struct {
	conn    rueidis.DedicatedClient
	release func()
}

// discard closes the connection. In the pool it would stay connected for as long as the client lives, and
// rueidis sends a PING over each connection every second (Dialer.KeepAlive): with many processes these
// cost the server more than their locks.
func (d dedicated) discard() {
	d.conn.Close()
	d.release()
}

// dedicate asks for a connection. rueidis waits until the pool has one, forever if
// need be, and that wait cannot be ended; so a goroutine waits.
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
		return dedicated{}, fmt.Errorf("redisstore: %w: all connections of the blocking pool are in use; raise rueidis.ClientOption.BlockingPoolSize: %w",
			driver.ErrUnavailable, ctx.Err())
	}
}

// spare is how long a subscription waits before it takes a connection from a caller. A
// new connection takes a few round trips to make.
const spare = 500 * time.Millisecond

// pool tracks which connections of the client's blocking pool are in use. A subscription
// comes first: without its own connection a call is slower, without a subscription a
// handoff is noticed only by a poll.
type pool struct {
	wanted atomic.Int64 // subscriptions that have waited for long
	mu     sync.Mutex
	conns  map[*ownConn]struct{} // that have a connection, or wait for one
}

// forSubscription returns a connection, and takes one from a caller if none is free.
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

// recall drops the connections that are not in use. Those in use are dropped when their
// next call sees that a subscription waits.
func (p *pool) recall() {
	p.mu.Lock()
	var conns []*ownConn
	for l := range p.conns {
		conns = append(conns, l)
	}
	p.mu.Unlock()
	for _, l := range conns {
		if l.mu.TryLock() {
			l.dropLocked()
			l.mu.Unlock()
		}
	}
}

func (p *pool) enter(l *ownConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		p.conns = map[*ownConn]struct{}{}
	}
	p.conns[l] = struct{}{}
}

func (p *pool) leave(l *ownConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, l)
}
