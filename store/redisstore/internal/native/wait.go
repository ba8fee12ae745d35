// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"slices"
)

// watchLocked watches the end of a context for an operation that is queued, and reports whether
// it does. Callers that cannot cancel share contexts (package callctx): hundreds of goroutines that
// each select on the same channel cost more than the rest of a batch. b.mu must be held.
func (b *batcher) watchLocked(ctx context.Context, o *operation) bool {
	if _, shared := ctx.(interface{ EndsAtDeadline() }); !shared || ctx.Err() != nil {
		return false
	}
	until := ctx.Done()
	o.until = until
	if _, watched := b.watched[until]; !watched {
		if b.watched == nil {
			b.watched = map[<-chan struct{}]struct{}{}
		}
		b.watched[until] = struct{}{}
		context.AfterFunc(ctx, func() { b.end(until) })
	}
	return true
}

// end notifies the callers of operations that were not answered before their context ended.
func (b *batcher) end(until <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watched, until)
	endAll := func(all []*operation) {
		for _, o := range all {
			if o.until == until && !o.over {
				o.ended = true
				o.notifyLocked()
			}
		}
	}
	endAll(b.queue)
	for _, call := range b.calls {
		endAll(call.operations)
	}
}

// answer notifies the callers of a call that was answered.
func (b *batcher) answer(call *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range call.operations {
		if o.sent && !o.over {
			o.notifyLocked()
		}
	}
	if i := slices.Index(b.calls, call); i >= 0 {
		b.calls = slices.Delete(b.calls, i, i+1)
	}
}

// notifyLocked notifies the caller of an operation, once. The batcher's mutex must be held.
func (o *operation) notifyLocked() {
	o.over = true
	o.done <- struct{}{}
}
