// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// sharedContext is a context as callers that cannot cancel share it (package callctx).
type sharedContext struct{ context.Context }

// EndsAtDeadline is the mark of such a context.
func (sharedContext) EndsAtDeadline() {}

// TestSharedContextEndsQueuedOperations: operations whose common context ends are over at once,
// whether they wait for the next batch or were sent with one, and those of another context go on.
func TestSharedContextEndsQueuedOperations(t *testing.T) { batches(t, testSharedContext) }

func testSharedContext(t *testing.T, w *world) {
	w.open(0, time.Second)
	p := w.procs[0]
	for _, sent := range []bool{false, true} {
		before := w.p.shut()
		var plugs sync.WaitGroup
		for range 2 {
			plug := w.claimFor(0, fmt.Sprint("plug ", p.seq))
			plugs.Go(func() { _, _ = p.real.Attempt(w.ctx, plug.claim) })
			<-before.arrived
		}
		ending, end := context.WithCancel(w.ctx)
		lasting, cancel := context.WithCancel(w.ctx)
		defer cancel()
		var over, rest []*operation
		for i := range 6 {
			ctx, all := ending, &over
			if i%2 == 1 {
				ctx, all = lasting, &rest
			}
			o := w.claimFor(0, fmt.Sprint("name ", p.seq))
			o.real, o.done = o.claim, make(chan struct{})
			*all = append(*all, o)
			q := &queued{Context: ctx, yes: make(chan struct{})}
			go o.do(sharedContext{q}, p.real)
			<-q.yes
		}
		gate := before
		if sent {
			gate = w.p.shut()
			close(before.opened)
			plugs.Wait()
			<-gate.arrived
		}
		end()
		for _, o := range over {
			if <-o.done; !errors.Is(o.err, context.Canceled) || errors.Is(o.err, driver.ErrUnknown) && !sent {
				t.Errorf("sent %t: %v", sent, o.err)
			}
		}
		close(gate.opened)
		for _, o := range rest {
			if <-o.done; o.err != nil || o.outcome.State != driver.Granted {
				t.Errorf("sent %t: another context: %v, %v", sent, o.outcome.State, o.err)
			}
		}
		plugs.Wait()
		w.p.carried()
	}
}
