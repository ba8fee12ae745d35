// SPDX-License-Identifier: Apache-2.0

package liststore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/wire"
)

const (
	// maxInFlight is how many calls are in flight at once: one is executed while
	// the next is collected.
	maxInFlight = 2
	// maxBatch bounds what one call carries, so that it never keeps a server busy
	// for long.
	maxBatch = 64
)

// batcher makes one transaction of many operations of the fast path. While fewer than two
// calls are in flight, an operation is sent at once and alone. Operations that come later are
// queued, and are sent together when one of the calls has been answered. The marker, the
// session and the proof are then read once for all of them:
//
//	MULTI · LREM, LREM, LLEN for each release · LMOVE, RPUSH for each claim · HMGET · SCRIPT EXISTS · EXEC
//
// A caller waits for its operation or for its context, whichever ends first. An
// operation that was sent and not answered has an unknown outcome.
type batcher struct {
	s *session

	mu       sync.Mutex
	queue    []*operation
	inFlight int
	work     sync.Cond
	senders  int // goroutines in sendLoop
	idle     int // senders that wait for work
}

// operation is one claim to push, or one grant to remove.
type operation struct {
	release bool
	name    string
	element string
	ticket  int64 // of the grant to remove; of a claim, what it was given
	sent    bool  // left the queue with a batch
	done    chan struct{}

	removed, length int64  // removed counts the ticket and the element of a grant, 10 and 1
	marker, session string // as they were in the transaction of a claim
	proven          bool   // in the transaction of a claim: the server has the run id
	err             error
}

func (b *batcher) init(s *session) {
	b.s = s
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
	if len(b.queue) == 0 && b.inFlight < maxInFlight {
		b.inFlight++
		b.mu.Unlock()
		b.deliver(ctx, []*operation{o})
		b.mu.Lock()
		defer b.mu.Unlock()
		b.doneLocked()
		return o.err
	}
	o.done = make(chan struct{})
	b.queue = append(b.queue, o)
	b.mu.Unlock()
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if o.sent {
		return fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, ctx.Err())
	}
	if i := slices.Index(b.queue, o); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	}
	return fmt.Errorf("redisstore: %w", ctx.Err()) // never sent
}

// doneLocked notes that a call was answered and starts a sender for what is queued. b.mu must
// be held.
func (b *batcher) doneLocked() {
	b.inFlight--
	switch {
	case len(b.queue) == 0:
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
		for len(b.queue) == 0 || b.inFlight == maxInFlight {
			if b.s.ctx.Err() != nil && len(b.queue) == 0 {
				b.senders--
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
			batch := slices.Clone(b.queue[:n])
			b.queue = slices.Delete(b.queue, 0, n)
			for _, o := range batch {
				o.sent = true
			}
			b.mu.Unlock()
			b.send(batch)
			b.mu.Lock()
		}
		b.doneLocked()
	}
}

// send makes one call, on no caller's context: other callers depend on it too.
func (b *batcher) send(batch []*operation) {
	ctx, cancel := context.WithTimeout(context.Background(), b.s.ttl)
	defer cancel()
	b.deliver(ctx, batch)
	for _, o := range batch {
		close(o.done)
	}
}

// deliver makes one call and gives every operation its answer.
func (b *batcher) deliver(ctx context.Context, batch []*operation) {
	if err := b.call(ctx, batch); err != nil {
		for _, o := range batch {
			o.err = b.s.store.explain(err)
		}
	}
}

// call sends the operations, releases first: a claim in the same batch may be for the same lock.
func (b *batcher) call(ctx context.Context, batch []*operation) error {
	slices.SortStableFunc(batch, func(x, y *operation) int {
		switch {
		case x.release == y.release:
			return 0
		case x.release:
			return -1
		}
		return 1
	})
	f := &b.s.fast
	commands := make([][]string, 0, 3*len(batch)+2)
	claims := false
	for _, o := range batch {
		list := f.lists + o.name
		if o.release {
			commands = append(commands, []string{"LREM", list, "1", strconv.FormatInt(o.ticket, 10)},
				[]string{"LREM", list, "1", o.element}, []string{"LLEN", list})
		} else {
			commands = append(commands, []string{"LMOVE", f.tickets, list, "LEFT", "RIGHT"}, []string{"RPUSH", list, o.element})
			claims = true
		}
	}
	key := commands[0][1]
	if claims {
		commands = append(commands, []string{"HMGET", f.bucket, "m", f.session}, []string{"SCRIPT", "EXISTS", f.proven})
	}
	send := b.s.exec
	if len(batch) == 1 && !claims {
		send = b.s.pipe // a release needs no transaction
	}
	replies, err := send(ctx, key, commands)
	if err != nil {
		return err
	}
	return read(batch, replies, claims)
}

// read gives every operation its replies.
func read(batch []*operation, replies []any, claims bool) error {
	r := wire.Reader{Rest: replies}
	for _, o := range batch {
		if o.release {
			o.removed = 10*r.Number() + r.Number()
		} else {
			o.ticket = r.Number()
		}
		o.length = r.Number()
	}
	var marker, session string
	proven := false
	if claims {
		found := wire.Reader{Rest: r.List()}
		marker, session = found.Text(), found.Text()
		exists := wire.Reader{Rest: r.List()}
		proven = exists.Number() == 1
	}
	if err := r.Err(); err != nil {
		return errors.Join(driver.ErrUnknown, err)
	}
	for _, o := range batch {
		o.marker, o.session, o.proven = marker, session, proven
	}
	return nil
}
