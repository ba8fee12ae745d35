// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"sync"
	"time"
)

// background runs the calls that go on after their callers have an answer, and counts them. While
// there are sessions, a goroutine that has done its call waits for the next: a call
// grows its stack, and there are as many calls for a lock as nodes.
type background struct {
	mu     sync.Mutex
	n      int
	idle   chan struct{} // closed when n is 0; nil without a waiter
	keep   bool          // there are sessions
	unused []chan func() // of goroutines that wait
}

// maxUnused bounds how many goroutines wait for a call.
const maxUnused = 64

// run runs f in another goroutine.
func (b *background) run(f func()) {
	b.mu.Lock()
	b.n++
	if last := len(b.unused) - 1; last >= 0 {
		next := b.unused[last]
		b.unused = b.unused[:last]
		b.mu.Unlock()
		next <- f
		return
	}
	b.mu.Unlock()
	go b.work(f)
}

// work runs f, and then what it is handed until it is not needed any more.
func (b *background) work(f func()) {
	next := make(chan func(), 1)
	for f != nil {
		f()
		if !b.done(next) {
			return
		}
		f = <-next
	}
}

// done counts a call that is over, and reports whether its goroutine shall wait for
// another.
func (b *background) done(next chan func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
	if !b.keep || len(b.unused) == maxUnused {
		return false
	}
	b.unused = append(b.unused, next)
	return true
}

// sessions reports whether there are any. Without, no goroutine waits.
func (b *background) sessions(some bool) {
	b.mu.Lock()
	b.keep = some
	b.mu.Unlock()
	if !some {
		b.rest()
	}
}

// rest ends the goroutines that wait.
func (b *background) rest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, next := range b.unused {
		close(next)
	}
	b.unused = nil
}

// wait returns when nothing is in flight. It is not a WaitGroup, because calls begin
// while it waits.
func (b *background) wait() {
	b.mu.Lock()
	if b.n == 0 {
		b.mu.Unlock()
		return
	}
	if b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	<-idle
}

// Close returns when no call to a node is in flight any more. Calls go on after their
// callers have an answer, each for NodeTimeout at most. Call it when all clients of the
// store are closed: before closing the nodes, and before a test in a synctest bubble
// returns. It always returns nil, and closes no node: these are the caller's.
func (s *Store) Close() error {
	s.background.wait()
	s.background.rest()
	return nil
}

// span is a context for the calls to nodes that begin before a moment. It ends by
// itself.
type span struct {
	context.Context
	cancel context.CancelFunc
	before time.Time
}

// bound returns a context for one call to one node. It does not end with the
// caller's: what was sent must be answered or withdrawn, even when the caller has gone. Calls that
// begin at about the same time share one: with a timer for each, of which there are as
// many as nodes, a lock cost the client a third more. So it ends up to an eighth sooner.
func (s *Store) bound() context.Context {
	now := time.Now()
	last := s.last.Load()
	if last == nil || !now.Before(last.before) {
		last = &span{before: now.Add(s.opts.NodeTimeout / 8)}
		last.Context, last.cancel = context.WithDeadline(context.Background(), now.Add(s.opts.NodeTimeout))
		s.last.Store(last) // of two at a time one is not shared, no harm
	}
	return last
}
