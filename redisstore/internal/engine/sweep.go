// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// glance is how many fields a keep-alive looks at besides, for what processes
	// that died have left behind. It costs a few µs.
	glance = "16"
	// stroke is how many a call looks at when there is much of it, less than a
	// millisecond for the server, and between is what it leaves to others.
	stroke  = "256"
	between = 2 * time.Millisecond
)

// sweeper removes what processes that died have left behind. A lock is found free
// without it, when somebody asks for it; it is for the memory of those that nobody
// asks for any more.
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
		for w.stroke() {
			select {
			case <-w.s.ctx.Done():
				return
			case <-time.After(between):
			}
		}
	}()
}

// stroke says whether there is more. After an error the next keep-alive begins anew.
func (w *sweeper) stroke() bool {
	ctx, cancel := context.WithTimeout(w.s.ctx, w.s.ttl)
	defer cancel()
	reply, err := w.s.store.call(ctx, tidyScript, w.s.shard, w.s.incarnation, stroke)
	return err == nil && len(reply) == 2 && reply[1] == int64(1)
}
