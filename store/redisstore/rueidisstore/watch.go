// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// watch closes a connection when the context of the call on it ends.
//
// Callers that cannot cancel share contexts (package callctx): one for locks and one for
// releases. To watch a context costs as much as to send a command, so a context that comes
// again is watched between calls, too, until others have come.
type watch struct {
	recent [2]watched // the contexts that came last, the last first
	active atomic.Pointer[call]
}

// call is what the end of a context stops. Calls in a row with one context share it.
type call struct{ _ byte }

// watched is a context that came lately.
type watched struct {
	done  <-chan struct{}
	call  *call
	again bool        // it came more than once
	stop  func() bool // nil if the context is not watched
}

// begin begins a call. It reports false if the context has ended: nothing may be sent then.
func (w *watch) begin(ctx context.Context, conn rueidis.DedicatedClient) bool {
	done := ctx.Done()
	if done == nil {
		return true
	}
	if done != w.recent[0].done {
		w.recent[0], w.recent[1] = w.recent[1], w.recent[0]
	}
	this := &w.recent[0]
	this.again = done == this.done
	if !this.again {
		this.end()
		*this = watched{done: done, call: new(call)}
	}
	if this.stop == nil {
		current := this.call
		this.stop = context.AfterFunc(ctx, func() {
			if w.active.CompareAndSwap(current, nil) {
				conn.Close()
			}
		})
	}
	w.active.Store(this.call)
	if ctx.Err() == nil {
		return true // from now on the end of the context closes the connection
	}
	w.end(ctx)
	return false
}

// end ends a call. It reports false if the connection was closed because the context ended.
func (w *watch) end(ctx context.Context) bool {
	if ctx.Done() == nil {
		return true
	}
	this := &w.recent[0]
	whole := w.active.CompareAndSwap(this.call, nil)
	if !this.again || !whole {
		this.stop()
		this.stop = nil
	}
	return whole
}

// drop stops to watch contexts: the connection is not used any more.
func (w *watch) drop() {
	for i := range w.recent {
		w.recent[i].end()
	}
}

// end stops to watch a context.
func (c *watched) end() {
	if c.stop != nil {
		c.stop()
	}
	*c = watched{}
}

// endless is a context without its end.
type endless struct{ context.Context }

// Deadline implements context.Context.
func (endless) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (endless) Done() <-chan struct{} { return nil }

// Err implements context.Context.
func (endless) Err() error { return nil }
