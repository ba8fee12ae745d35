// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
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
	// fewVotes is how many votes are worth a second call while one is in flight. A script costs the
	// server more than the votes that it carries, and there are as many servers as votes for a lock.
	fewVotes = 8
)

// batcher carries out operations: claims for locks that should be free, and releases. While fewer than two
// calls are in flight, an operation is sent at once and alone, by plain commands (plain.go). Operations that come later are
// queued, and are sent together when one of the calls has been answered, by one script, batch.lua: the marker and
// the session are then read once for all of them, and one reply answers all.
//
//	do ──▶ alone: plain.call ──────────────────────────▶ the server
//	   └─▶ queue ──▶ sendLoop ──▶ batch.run: batch.lua ─▶
//
// A caller waits for its operation or for its context, whichever ends first. An
// operation that was sent and not answered has an unknown outcome.
type batcher struct {
	s    *session
	call func(ctx context.Context, next *batch) error

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
	vote    bool // it needs a script
	name    string
	floor   int64  // of a vote: the least number of its grant
	element string // the claim
	ticket  int64  // of the grant to remove; of a claim, what it was given
	sent    bool   // left the queue with a batch
	done    chan struct{}

	// until is the end of its context if the batcher watches that, over is set when
	// done has a value, and ended if the context ended before the answer.
	until       <-chan struct{}
	over, ended bool

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
	// isGranted: the claim holds the lock.
	isGranted
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

func (b *batcher) init(s *session, call func(ctx context.Context, next *batch) error) {
	b.s, b.call = s, call
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
		return fmt.Errorf("redisstore: %w", err)
	}
	b.mu.Lock()
	if len(b.queue) == 0 && b.mayLocked(1, o.vote) {
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
	return b.giveUp(ctx, o)
}

// giveUp returns the error of an operation whose context ended before it was answered.
func (b *batcher) giveUp(ctx context.Context, o *operation) error {
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
func (b *batcher) mayLocked(n int, votes bool) bool {
	return n > 0 && (b.inFlight == 0 || b.inFlight < maxInFlight && (!votes || n >= fewVotes))
}

// readyLocked is mayLocked for what is queued. b.mu must be held.
func (b *batcher) readyLocked() bool {
	return len(b.queue) > 0 && b.mayLocked(len(b.queue), b.queue[0].vote)
}

// doneLocked notes that a call was answered. b.mu must be held.
func (b *batcher) doneLocked() {
	b.inFlight--
	b.startLocked()
}

// startLocked starts a sender for what is queued. b.mu must be held.
func (b *batcher) startLocked() {
	switch {
	case !b.readyLocked():
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
		for !b.readyLocked() {
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
			next.take(b.queue[:n])
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
	if err != nil {
		err = b.s.store.explain(err)
		for _, o := range next.operations {
			o.err = err
		}
	}
	b.answer(next)
	if err != nil {
		return // the call may still be under way
	}
	next.reset()
	batches.Put(next)
}

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

// batch is what one call carries.
type batch struct {
	operations []*operation
	commands   rediscmd.Commands // if it is one operation
	keys, args []string          // of batch.lua, if there are more
}

// reset makes room for other operations.
func (next *batch) reset() {
	clear(next.operations)
	clear(next.keys)
	clear(next.args)
	next.operations, next.keys, next.args = next.operations[:0], next.keys[:0], next.args[:0]
	next.commands.Reset()
}

// take takes operations over, releases first: a claim in the same batch may be for the same lock. They keep their order from now
// on, because end goes over them.
func (next *batch) take(queue []*operation) {
	for _, release := range []bool{true, false} {
		for _, o := range queue {
			if o.release == release {
				next.operations = append(next.operations, o)
			}
		}
	}
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// carryOut carries out one operation by plain commands, and several by a script.
func (s *session) carryOut(ctx context.Context, next *batch) error {
	if one := next.operations[0]; len(next.operations) == 1 && !one.vote && !s.store.switches.batched {
		return s.plain.call(ctx, one, &next.commands)
	}
	return next.run(ctx, s)
}

// run sends the operations as one script. None is done if the server does not know the script.
func (next *batch) run(ctx context.Context, s *session) error {
	script := s.proof.script(batchScript)
	if script == nil {
		return nil
	}
	next.words(s)
	reply, err := s.store.client.Eval(ctx, script, next.keys, next.args)
	if errors.Is(err, rediscmd.ErrNoScript) {
		s.proof.lost()
		return nil
	}
	if err != nil {
		return err
	}
	till, err := next.read(reply)
	if err != nil {
		return err
	}
	lives := s.alive.lives()
	s.plain.fresh(till)
	for _, o := range next.operations {
		switch {
		case o.release:
		case o.result != isGranted:
		case !lives:
			o.result, o.ticket = inList, 0
		case !o.vote && o.ticket%refillEvery == 0:
			s.plain.refill()
		}
	}
	return nil
}

// words makes the keys and arguments of batch.lua.
func (next *batch) words(s *session) {
	next.keys = append(next.keys[:0], s.base, s.plain.tickets)
	next.args = s.store.appendArgs(next.args[:0], s.store.layout, s.base, s.incarnation)
	next.args = append(next.args, s.sid, s.tail, "", "")
	own := next.args[len(next.args)-2:]
	var text strings.Builder // the keys of all: a string for each would cost more than the rest of the words
	text.Grow(len(next.operations) * (len(s.plain.lists) + 32))
	var floors []byte
	votes := slices.ContainsFunc(next.operations, func(o *operation) bool { return o.vote && !o.release })
	releases := 0
	for _, o := range next.operations {
		from := text.Len()
		text.WriteString(s.plain.lists)
		text.WriteString(o.name)
		next.keys = append(next.keys, text.String()[from:])
		if o.release {
			releases++
			continue
		}
		if votes {
			floors = rediscmd.AppendBytes(floors, o.floor, 7)
		}
	}
	own[0], own[1] = strconv.Itoa(releases), string(floors)
	for _, o := range next.operations {
		next.args = append(next.args, o.element)
	}
	next.keys = append(next.keys, s.base+none, s.base+":s")
}

// read gives the operations their replies, and returns until when the marker counts.
func (next *batch) read(reply []any) (till int64, err error) {
	var text string
	if len(reply) == 1 {
		text, _ = reply[0].(string)
	}
	for _, o := range next.operations {
		var word string
		word, text, _ = strings.Cut(text, " ")
		n, err := strconv.ParseInt(word, 10, 64)
		switch {
		case err != nil:
			return 0, errors.Join(driver.ErrUnknown, rediscmd.ErrShort)
		case n == 0:
		case o.release:
			o.result = released
		default:
			o.result, o.ticket = isGranted, n
		}
	}
	if till, err = strconv.ParseInt(text, 10, 64); err != nil {
		return 0, errors.Join(driver.ErrUnknown, rediscmd.ErrShort)
	}
	return till, nil
}
