// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/redisstore/internal/engine"
	"github.com/redis/rueidis"
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
type line struct {
	a       *adapter
	used    time.Time // when the last call began
	calls   int       // calls in a row without a pause
	conn    rueidis.DedicatedClient
	release func()
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
	now := time.Now()
	if now.Sub(l.used) > pause {
		l.calls = 0
	}
	l.used = now
	if l.calls++; l.calls < enough {
		return l.a.Eval(ctx, s, keys, args)
	}
	if l.conn == nil {
		l.conn, l.release = l.a.client.Dedicate()
	}
	stop := context.AfterFunc(ctx, l.conn.Close)
	reply, err := eval(context.WithoutCancel(ctx), l.conn, s, keys, args)
	if !stop() {
		l.Close()
		if err != nil {
			return nil, fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, ctx.Err())
		}
	}
	if err != nil && !errors.Is(err, engine.ErrNoScript) {
		// Whatever it was, the next call begins anew: the server may be a replica by
		// now, and only a new connection finds the master.
		l.Close()
		return nil, classify(ctx, err)
	}
	return reply, err
}

// Close implements engine.Line.
func (l *line) Close() {
	if l.conn != nil {
		l.conn.Close()
		l.release()
		l.conn = nil
	}
}
