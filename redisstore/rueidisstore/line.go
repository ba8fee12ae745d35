// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/redisstore/internal/engine"
)

// line is a connection that one caller at a time has to itself, while calls come
// thick and fast. On such a connection rueidis writes and reads in the goroutine of the
// caller; on one that is shared it hands every call to a writer and every reply to a
// reader, and each hand-over wakes a thread. And it can be closed when a caller's
// context ends, which is the only way to end a read.
//
// Nobody reads it between calls, so that it broke is noticed by a call, whose outcome
// is then unknown. Therefore calls after a pause, in which a server may have come back,
// go by the shared one, which knows.
//
// It is a connection of the client's blocking pool, which may be small. Until there is
// one, and while a subscription wants it, calls go by the shared one too.
type line struct {
	a *adapter

	mu     sync.Mutex // whoever has the line, or takes its connection away
	used   time.Time  // when the last call began
	calls  int        // calls in a row without a pause
	coming <-chan dedicated
	dedicated
}

const (
	// pause is short against the restart of a server.
	pause = 10 * time.Millisecond
	// enough calls without one are worth a connection.
	enough = 16
)

// Line implements engine.Client. A cluster's calls follow MOVED from node to node,
// which a connection cannot.
func (a *adapter) Line(string) engine.Line {
	if a.cluster {
		return a
	}
	return &line{a: a}
}

// Eval implements engine.Line.
func (l *line) Eval(ctx context.Context, s *engine.Script, keys, args []string) ([]any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ready() {
		return l.a.Eval(ctx, s, keys, args)
	}
	stop := context.AfterFunc(ctx, l.conn.Close)
	reply, err := eval(context.WithoutCancel(ctx), l.conn, s, keys, args)
	if !stop() {
		l.drop()
		if err != nil {
			return nil, fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, ctx.Err())
		}
	}
	if err != nil && !errors.Is(err, engine.ErrNoScript) {
		// Whatever it was, the next call begins anew: the server may be a replica by
		// now, and only a new connection finds the master.
		l.drop()
		return nil, classify(ctx, err)
	}
	return reply, err
}

// ready says whether there is a connection and calls come thick and fast. Wants l.mu.
func (l *line) ready() bool {
	now := time.Now()
	if now.Sub(l.used) > pause {
		l.calls = 0
	}
	l.used = now
	if l.a.pool.wanted.Load() > 0 {
		l.drop()
		return false
	}
	if l.calls++; l.calls < enough {
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

// Close implements engine.Line.
func (l *line) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

// drop gives up the connection, or what would become one. It closes it: nobody knows
// what is still to be read from it. Wants l.mu.
func (l *line) drop() {
	switch {
	case l.conn != nil:
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
