// SPDX-License-Identifier: Apache-2.0

package rueidisclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
	"github.com/redis/rueidis"
)

const (
	// maxLanes is how many lanes a client has. The calls of a session go in batches, of which few are on their way at
	// once. Calls beyond that share a connection, where rueidis makes one write of many calls.
	maxLanes = 2
	// pause is short against the restart of a server.
	pause = 10 * time.Millisecond
	// enough calls without one are worth a connection.
	enough = 16
	// idle is after how long a connection is given up that no call uses any more.
	idle = 10 * pause
	// spare is how long a subscription waits before it takes a connection from a lane. A
	// new connection takes a few round trips to make.
	spare = 500 * time.Millisecond
)

// lane is a connection that serves one call at a time, under load. On such a connection
// rueidis writes and reads in the goroutine of the caller; on a shared connection it passes
// every call to a writer and every reply to a reader, and each pass wakes a thread. The connection of a lane
// can also be closed when a caller's context ends, which is the only way to end a
// read.
//
// It is not read between calls, so a call notices a broken connection, and its
// outcome is then unknown. Therefore calls after a pause, in which a server may have come
// back, use the shared connection, which notices that by itself.
//
// The connection comes from the client's blocking pool, which may be small. Until there is
// one, and while a subscription needs it, calls use the shared connection too.
type lane struct {
	mu      sync.Mutex // held during a call, and to take the connection away
	used    time.Time  // when the last call began
	calls   int        // calls in a row without a pause
	watched bool       // expire will be called
	coming  <-chan dedicated
	dedicated
	ctx  endless     // of the call: rueidis does not keep it
	end  *time.Timer // closes the connection
	stop func() bool // ends the watch of the context of the call, if it is not the timer
}

// endless is a context that rueidis sees without an end: a call that can be canceled takes the slow path through its queue.
type endless struct{ context.Context }

// Deadline implements context.Context.
func (*endless) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (*endless) Done() <-chan struct{} { return nil }

// Err implements context.Context.
func (*endless) Err() error { return nil }

// beginLocked begins a call on the connection, which is closed when the context ends. Nearly all callers
// share a context that ends at its deadline, and before that only with the session of its process (package callctx): a timer costs them a
// fraction of context.AfterFunc. So the last call of a session at a server that does not answer ends at its deadline, as with go-redis. l.mu
// must be held.
func (l *lane) beginLocked(ctx context.Context) {
	l.ctx.Context = ctx
	if _, timed := ctx.(interface{ EndsAtDeadline() }); !timed {
		l.stop = context.AfterFunc(ctx, l.conn.Close)
		return
	}
	deadline, _ := ctx.Deadline()
	if l.end == nil {
		l.end = time.AfterFunc(time.Until(deadline), l.conn.Close)
	} else {
		l.end.Reset(time.Until(deadline))
	}
}

// endLocked ends a call, and reports whether its context ended before. l.mu must be held.
func (l *lane) endLocked() (ended bool) {
	if l.stop != nil {
		ended = !l.stop()
	} else {
		ended = !l.end.Stop()
	}
	l.ctx.Context, l.stop = nil, nil
	return ended
}

// call sends by a lane if one is free, else over the shared connection.
func call[T any](ctx context.Context, a *Client, send func(context.Context, rueidis.CoreClient) (T, error)) (v T, err error) {
	if err := rediscmd.Ended(ctx); err != nil {
		return v, err
	}
	l := a.take()
	if l == nil {
		v, err = rediscmd.BoundedWithin(ctx, &a.abandoned, func() (T, error) {
			v, err := send(a.sending(ctx), a.client)
			return v, classify(ctx, err)
		})
		if a.oneAddress && rediscmd.OfReplica(err) {
			return callAnew(ctx, a, err, send)
		}
		return v, err
	}
	defer a.give(l)
	l.beginLocked(ctx)
	v, err = send(&l.ctx, l.conn)
	ended := l.endLocked()
	switch {
	case ended && err != nil:
		err = fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, cmp.Or(ctx.Err(), context.DeadlineExceeded)) // our timer may be the first
	case err == nil && !ended, errors.Is(err, rediscmd.ErrNoScript):
		return v, err
	default:
		err = classify(ctx, err)
	}
	// After any error the next call starts on a new connection: the server may be a replica by
	// now, and only a new connection finds the master.
	l.dropLocked()
	return v, err
}

// callAnew sends once more, over a new connection, what a replica rejected over the shared one and did not do. A master that is
// demoted keeps its connections open, and the address may lead to the new master by then (DNS, a load balancer). rueidis
// replaces a shared connection only when it breaks, so without this all calls would be rejected for as long as the replica lives.
// To close the shared connection instead is impossible: it is the caller's, and rueidis has several of them.
func callAnew[T any](ctx context.Context, a *Client, rejected error, send func(context.Context, rueidis.CoreClient) (T, error)) (v T, err error) {
	d, err := dedicateWithin(ctx, a.client)
	if err != nil {
		return v, rejected
	}
	defer d.discard() // one that the pool had may lead to the replica, too: the next call gets another one
	stop := context.AfterFunc(ctx, d.conn.Close)
	v, err = send(context.WithoutCancel(ctx), d.conn)
	if ended := !stop(); ended && err != nil {
		return v, fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, ctx.Err())
	}
	if errors.Is(err, rediscmd.ErrNoScript) {
		return v, err
	}
	return v, classify(ctx, err)
}

// take returns a lane with a connection, to be given back, or nil if there is none. A cluster has no lanes: its calls
// follow MOVED from node to node, which a connection cannot.
func (a *Client) take() *lane {
	if a.cluster || a.wanted.Load() > 0 {
		return nil
	}
	for i := range a.lanes {
		l := &a.lanes[i]
		if !l.mu.TryLock() {
			continue
		}
		if l.readyLocked(a.client) {
			return l
		}
		a.give(l)
		return nil
	}
	return nil
}

// give gives a lane back, and its connection to a subscription that waits for one.
func (a *Client) give(l *lane) {
	if a.wanted.Load() > 0 {
		l.dropLocked()
	}
	l.mu.Unlock()
}

// readyLocked counts a call, and reports whether there is a connection and enough calls came
// without a pause. A connection from before a pause may be broken. l.mu must be held.
func (l *lane) readyLocked(client rueidis.Client) bool {
	now := time.Now()
	if now.Sub(l.used) > pause {
		l.calls = 0
		l.dropLocked()
	}
	l.used = now
	l.calls++
	switch {
	case l.calls < enough:
		return false
	case l.conn != nil:
		return true
	case l.coming == nil:
		l.coming = dedicate(client)
		if !l.watched {
			l.watched = true
			time.AfterFunc(idle, l.expire)
		}
		return false
	}
	select {
	case l.dedicated = <-l.coming:
		l.coming = nil
		return true
	default:
		return false
	}
}

// expire gives up a connection that is not used any more.
func (l *lane) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rest := idle - time.Since(l.used); rest > 0 {
		time.AfterFunc(rest, l.expire)
		return
	}
	l.watched = false
	l.dropLocked()
}

// dropLocked gives up the connection, or the one to come. It closes it, because replies
// may still be unread. l.mu must be held.
func (l *lane) dropLocked() {
	if l.conn != nil {
		if l.end != nil {
			l.end.Stop()
		}
		l.discard()
	} else if l.coming != nil {
		go func(coming <-chan dedicated) { (<-coming).release() }(l.coming)
	}
	l.dedicated, l.coming, l.end = dedicated{}, nil, nil
}

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

// forSubscription returns a connection. After a while it takes that of a lane: without one a call is slower, without a
// subscription a handoff is noticed only by a poll.
func (a *Client) forSubscription(ctx context.Context) (dedicated, error) {
	recall := time.AfterFunc(spare, func() {
		a.wanted.Add(1)
		for i := range a.lanes {
			l := &a.lanes[i]
			if l.mu.TryLock() { // one that is in use is dropped when it is given back
				l.dropLocked()
				l.mu.Unlock()
			}
		}
	})
	d, err := dedicateWithin(ctx, a.client)
	if !recall.Stop() {
		a.wanted.Add(-1)
	}
	return d, err
}
