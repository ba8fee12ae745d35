// SPDX-License-Identifier: Apache-2.0

package luastore

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// sweepPerKeepAlive is how many fields a keep-alive also reads, for what
	// processes that died have left behind. It costs a few µs.
	sweepPerKeepAlive = "16"
	// sweepStep is how many fields a call reads when much is left behind: less than
	// a millisecond for the server. between is the time it leaves to other calls.
	sweepStep = "256"
	between   = 2 * time.Millisecond
)

// sweeper removes what processes that died have left behind. A lock is found free
// without it at the next attempt; the sweep frees the memory of locks that no process
// uses any more.
type sweeper struct {
	s    *session
	busy atomic.Bool
}

// sweep goes on in the background for as long as there is much to sweep.
func (w *sweeper) sweep() {
	if !w.busy.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer w.busy.Store(false)
		for w.step() {
			select {
			case <-w.s.ctx.Done():
				return
			case <-time.After(between):
			}
		}
	}()
}

// walk removes the dead claims that are left in front of a queue, so that the first claim
// that lives behind them is granted the lock and need not wait for its own next poll. reply
// is that of the script that left them. An error ends the walk; polls go on then.
func (s *Store) walk(ctx context.Context, set settings, name string, reply []any) {
	for more(reply) {
		var err error
		if reply, err = s.callWith(ctx, set, inspectScript, set.shard(name), "0", "0", name); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(between):
		}
	}
}

// more reports whether a script left dead claims in front of a queue: its reply ends with 1.
func more(reply []any) bool { return len(reply) > 1 && reply[len(reply)-1] == int64(1) }

// step sweeps once and reports whether there is more. After an error the next keep-alive
// starts again.
func (w *sweeper) step() bool {
	ctx, cancel := context.WithTimeout(w.s.ctx, w.s.ttl)
	defer cancel()
	reply, err := w.s.store.call(ctx, tidyScript, w.s.shard, w.s.incarnation, sweepStep)
	return err == nil && len(reply) == 2 && reply[1] == int64(1)
}
