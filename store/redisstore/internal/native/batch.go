// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

const (
	// maxInFlight is how many calls are in flight at once: one is executed while
	// the next is collected.
	maxInFlight = 2
	// maxBatch bounds what one call carries, so that it never keeps a server busy
	// for long.
	maxBatch = 64
)

// batcher makes one call of many operations of the fast path. While fewer than two
// calls are in flight, an operation is sent at once and alone. Operations that come later are
// queued, and are sent together when one of the calls has been answered. The marker, the
// session and the proof are then read once for all of them:
//
//	LREM, LREM, LLEN for each release · MULTI · LMOVE, RPUSH for each claim · HMGET · SCRIPT EXISTS · EXEC
//
// From eight operations on, one script does the same (many.lua).
//
// A caller waits for its operation or for its context, whichever ends first. An
// operation that was sent and not answered has an unknown outcome.
type batcher struct {
	s    *session
	call func(ctx context.Context, next *batch) error
	// few is how many operations are worth a second call while one is in flight.
	few int

	mu       sync.Mutex
	queue    []*operation
	inFlight int
	calls    []*batch                     // those in flight
	watched  map[<-chan struct{}]struct{} // ends of contexts
	work     sync.Cond
	senders  int // goroutines in sendLoop
	idle     int // senders that wait for work
}

// operation is one claim to push, or one grant to remove.
type operation struct {
	release bool
	name    string
	seq     uint64        // of a vote
	floor   int64         // of a vote: the least number of its grant
	element string        // of a vote: its record
	ticket  int64         // of the grant to remove; of a claim, what it was given
	sent    bool          // left the queue with a batch
	done    chan struct{} // has a value when the operation was answered, or ended

	// until is the end of its context if the batcher watches that (wait.go), over is set when
	// done has a value, and ended if the context ended before the answer.
	until       <-chan struct{}
	over, ended bool

	// answered is set for a release that was answered, even if the claims beside it failed.
	answered bool

	length int64 // of the list behind a claim that plain commands pushed
	marked bool  // plain commands pushed a claim that may have a mark
	result result
	err    error
}

// result is what became of an operation.
type result uint8

const (
	// undone: a script has to do it, or to find out why it cannot be done.
	undone result = iota
	// inList: the claim was pushed, and a script has to decide about it.
	inList
	// granted: the claim holds the lock.
	granted
	// released: the grant was removed.
	released
	// passing: the grant was removed, and the next in the queue must be notified.
	passing
)

// operations are those to use again. One that a sender may still use never comes back.
var operations = sync.Pool{New: func() any { return &operation{done: make(chan struct{}, 1)} }}

func newOperation() *operation { return operations.Get().(*operation) }

// free gives an operation back that was answered.
func (o *operation) free() {
	*o = operation{done: o.done}
	operations.Put(o)
}

// batch is what one call carries.
type batch struct {
	operations []*operation
	commands   rediscmd.Commands
	marks      bool     // the marks of claims are read
	keys, args []string // of many.lua
}

// reset makes room for other operations.
func (b *batch) reset() {
	clear(b.operations)
	clear(b.keys)
	clear(b.args)
	b.operations, b.keys, b.args = b.operations[:0], b.keys[:0], b.args[:0]
	b.commands.Reset()
}

var batches = sync.Pool{New: func() any { return new(batch) }}

func (b *batcher) init(s *session, few int, call func(ctx context.Context, next *batch) error) {
	b.s, b.few, b.call = s, few, call
	b.work.L = &b.mu
	context.AfterFunc(s.ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.work.Broadcast()
	})
}

// do sends an operation, alone or with others, and waits for its answer.
func (b *batcher) do(ctx context.Context, o *operation) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redisstore: %w", driver.Inner(err))
	}
	b.mu.Lock()
	if len(b.queue) == 0 && b.mayLocked(1) {
		b.inFlight++
		b.mu.Unlock()
		alone := batches.Get().(*batch)
		alone.operations = append(alone.operations, o)
		b.deliver(ctx, alone)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.doneLocked()
		return o.err
	}
	b.queue = append(b.queue, o)
	b.startLocked()
	if b.watchLocked(ctx, o) {
		b.mu.Unlock()
		<-o.done // cheaper than a select
		if !o.ended {
			return o.err
		}
	} else {
		b.mu.Unlock()
		select {
		case <-o.done:
			return o.err
		case <-ctx.Done():
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if o.sent {
		return fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, ctx.Err())
	}
	if i := slices.Index(b.queue, o); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	}
	if b.overLocked() {
		b.work.Broadcast()
	}
	return fmt.Errorf("redisstore: %w", ctx.Err()) // never sent
}

// mayLocked reports whether a call with n operations may begin. b.mu must be held.
func (b *batcher) mayLocked(n int) bool {
	return n > 0 && (b.inFlight == 0 || b.inFlight < maxInFlight && n >= b.few)
}

// doneLocked notes that a call was answered. b.mu must be held.
func (b *batcher) doneLocked() {
	b.inFlight--
	b.startLocked()
}

// startLocked starts a sender for what is queued. b.mu must be held.
func (b *batcher) startLocked() {
	switch {
	case !b.mayLocked(len(b.queue)):
	case b.idle > 0:
		b.work.Signal()
	case b.senders < maxInFlight:
		b.senders++
		go b.sendLoop()
	}
}

// sendLoop sends queued operations in batches until the session is over.
func (b *batcher) sendLoop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for !b.mayLocked(len(b.queue)) {
			if b.overLocked() {
				b.senders--
				b.work.Broadcast() // the end of the session found others in front of a queue
				return
			}
			b.idle++
			b.work.Wait()
			b.idle--
		}
		b.inFlight++
		b.mu.Unlock()
		runtime.Gosched() // operations that are about to be queued come along
		b.mu.Lock()
		if n := min(len(b.queue), maxBatch); n > 0 {
			next := batches.Get().(*batch)
			next.operations = append(next.operations, b.queue[:n]...)
			b.calls = append(b.calls, next)
			b.queue = slices.Delete(b.queue, 0, n)
			for _, o := range next.operations {
				o.sent = true
			}
			b.mu.Unlock()
			b.send(next)
			b.mu.Lock()
		}
		b.doneLocked()
	}
}

// overLocked reports whether the session is over and nothing is left to send. b.mu must be held.
func (b *batcher) overLocked() bool { return b.s.ctx.Err() != nil && len(b.queue) == 0 }

// send makes one call, on no caller's context: other callers depend on it too.
func (b *batcher) send(next *batch) {
	ctx, cancel := context.WithTimeout(context.Background(), b.s.ttl)
	defer cancel()
	b.deliver(ctx, next)
}

// deliver makes one call and gives every operation its answer.
func (b *batcher) deliver(ctx context.Context, next *batch) {
	err := b.call(ctx, next)
	for _, o := range next.operations {
		if err != nil && !o.answered {
			o.err = b.s.store.explain(err)
		}
	}
	b.answer(next)
	if err != nil {
		return // the call may still be under way
	}
	next.reset()
	batches.Put(next)
}
