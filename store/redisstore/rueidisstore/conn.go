// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// ownConn is a connection that serves one caller at a time, under load. On such a connection
// rueidis writes and reads in the goroutine of the caller; on a shared connection it passes
// every call to a writer and every reply to a reader, and each pass wakes a thread. An
// ownConn can also be closed when a caller's context ends, which is the only way to end a
// read.
//
// An ownConn is not read between calls, so a call notices a broken connection, and its
// outcome is then unknown. Therefore calls after a pause, in which a server may have come
// back, use the shared connection, which notices that by itself.
//
// The connection comes from the client's blocking pool, which may be small. Until there is
// one, and while a subscription needs it, calls use the shared connection too.
type ownConn struct {
	a *adapter

	mu     sync.Mutex // held during a call, and to take the connection away
	used   time.Time  // when the last call began
	calls  int        // calls in a row without a pause
	coming <-chan dedicated
	dedicated
	watch watch
	ctx   endless // of the call: rueidis does not keep it
}

const (
	// pause is short against the restart of a server.
	pause = 10 * time.Millisecond
	// enough calls without one are worth a connection.
	enough = 16
)

// Conn implements rediscmd.Client. A cluster's calls follow MOVED from node to node,
// which a connection cannot.
func (a *adapter) Conn(string) rediscmd.Conn {
	if a.cluster {
		return a
	}
	return &ownConn{a: a}
}

// Eval implements rediscmd.Conn.
func (l *ownConn) Eval(ctx context.Context, s *rediscmd.Script, keys, args []string) ([]any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.readyLocked() {
		return l.a.Eval(ctx, s, keys, args)
	}
	if err := l.beginLocked(ctx); err != nil {
		return nil, err
	}
	reply, err := l.a.eval(&l.ctx, l.conn, s, keys, args)
	if err := l.endLocked(ctx, err); err != nil {
		return nil, err
	}
	return reply, nil
}

// beginLocked begins a call on the connection. l.mu must be held.
func (l *ownConn) beginLocked(ctx context.Context) error {
	if !l.watch.begin(ctx, l.conn) {
		return fmt.Errorf("redisstore: %w", driver.Inner(ctx.Err())) // nothing was sent
	}
	l.ctx.Context = ctx
	return nil
}

// endLocked ends a call on the connection and returns its error. l.mu must be held.
func (l *ownConn) endLocked(ctx context.Context, err error) error {
	l.ctx.Context = nil
	if !l.watch.end(ctx) {
		l.dropLocked()
		if err != nil {
			return fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, ctx.Err())
		}
	}
	if err != nil && !errors.Is(err, rediscmd.ErrNoScript) {
		// After any error the next call starts on a new connection: the server may be a replica by
		// now, and only a new connection finds the master.
		l.dropLocked()
		return classify(ctx, err)
	}
	return err
}

// readyLocked counts a call, and reports whether there is a connection and enough calls came
// without a pause. l.mu must be held.
func (l *ownConn) readyLocked() bool {
	now := time.Now()
	if now.Sub(l.used) > pause {
		l.calls = 0
	}
	l.used = now
	if l.a.pool.wanted.Load() > 0 {
		l.dropLocked()
		return false
	}
	l.calls++
	if l.calls < enough {
		return false
	}
	if l.conn != nil {
		return true
	}
	if l.coming == nil {
		l.a.pool.enter(l)
		l.coming = dedicate(l.a.client)
	}
	select {
	case l.dedicated = <-l.coming:
		l.coming = nil
		return true
	default:
		return false
	}
}

// Close implements rediscmd.Conn.
func (l *ownConn) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropLocked()
}

// dropLocked gives up the connection, or the one to come. It closes it, because replies
// may still be unread. l.mu must be held.
func (l *ownConn) dropLocked() {
	switch {
	case l.conn != nil:
		l.watch.drop()
		l.conn.Close()
		l.release()
	case l.coming != nil:
		go func(coming <-chan dedicated) { (<-coming).release() }(l.coming)
	default:
		return
	}
	l.dedicated, l.coming = dedicated{}, nil
	l.a.pool.leave(l)
}
