// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"context"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Watches watch the queues behind the grants of a session, for a store on whose server a client can
// wait for a change. A watch ends with the first claim that is queued: OpenRequest.Contended is called then.
type Watches struct {
	// Pause is how long a watch that failed pauses before the next try: short against a renewal.
	Pause time.Duration

	mu     sync.Mutex
	wanted func(seq uint64)
	over   bool
	by     map[uint64]context.CancelFunc // by claim, also of those that were notified
}

// Report calls wanted from now on: it is OpenRequest.Contended, which may be nil.
func (w *Watches) Report(wanted func(seq uint64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = wanted
}

// Start begins to watch behind a granted claim with Watch, if it is not watched. Queued returns
// true when a claim is queued, and false without an error if the grant is not there. Ctx is not that of a call.
func (w *Watches) Start(ctx context.Context, c *driver.Claim, queued func(ctx context.Context, seq uint64, name string) (bool, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.wanted == nil || w.by[c.Seq] != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	if w.by == nil {
		w.by = map[uint64]context.CancelFunc{}
	}
	w.by[c.Seq] = cancel
	seq, name := c.Seq, c.Name
	go func() {
		defer cancel()
		w.run(ctx, seq, func() (bool, error) { return queued(ctx, seq, name) })
	}()
}

// run waits for a claim behind a granted one until that is queued, or ctx or the grant ends.
func (w *Watches) run(ctx context.Context, seq uint64, queued func() (bool, error)) {
	for {
		found, err := queued()
		switch {
		case found:
			w.mu.Lock()
			wanted := w.wanted
			w.mu.Unlock()
			wanted(seq)
			return
		case err == nil: // a withdrawal came before the watch
			w.End(seq)
			return
		}
		select {
		case <-time.After(w.Pause):
		case <-ctx.Done():
			return
		}
	}
}

// End ends the watch behind a claim that was withdrawn.
func (w *Watches) End(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cancel := w.by[seq]; cancel != nil {
		cancel()
		delete(w.by, seq)
	}
}

// Close ends all watches, of a session that has ended, and lets none begin.
func (w *Watches) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for _, cancel := range w.by {
		cancel()
	}
	w.by = nil
}
