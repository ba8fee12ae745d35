// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
)

// Request asks for a lock. ID is chosen by the client, and new for each acquisition.
type Request struct {
	ID, Lock, Reason string
	// Wait is how long the call waits for the lock. The position in the queue is kept
	// between calls, for a TTL.
	Wait time.Duration
	// Watch asks for Answer.Contended.
	Watch bool
}

// Acquire gets a lock for a client, or continues to wait for it. The same id gets the same
// lease.
func (ls *Leases) Acquire(ctx context.Context, c *Caller, r *Request) (Answer, error) {
	l, first, err := ls.begin(c, r)
	if err != nil || l == nil {
		return Answer{ID: r.ID, Lock: r.Lock, State: Released}, err
	}
	if first {
		ls.acquire(c, r, l)
	}
	if r.Wait > 0 {
		until := time.NewTimer(r.Wait)
		defer until.Stop()
		ls.pause(ctx, l.decided, until.C)
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.polls--
	switch {
	case l.state == Waiting || l.state == Held:
		l.touchLocked()
	case l.state != Busy && l.held == nil && l.why != nil:
		return Answer{}, l.why // it was not acquired
	}
	return l.answerLocked(c.Received), nil
}

// begin finds the lease of a request, or makes it; first is set then. It returns no lease if
// the client has released it.
func (ls *Leases) begin(c *Caller, r *Request) (l *lease, first bool, err error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	s, err := ls.sessionLocked(c)
	switch {
	case err != nil:
		return nil, false, err
	case s.over:
		return nil, false, ErrOver
	case s.released(r.ID):
		return nil, false, nil
	}
	if l = s.leases[r.ID]; l == nil {
		if !s.roomLocked(MaxLeases) {
			return nil, false, ErrTooManyLeases
		}
		l, first = &lease{s: s, id: r.ID, lock: r.Lock, state: Waiting, watched: r.Watch, decided: make(chan struct{})}, true
		s.leases[r.ID] = l
	} else if l.lock != r.Lock {
		return nil, false, ErrOtherLock
	}
	l.polls++
	l.touchLocked()
	return l, first, nil
}

// acquire calls the store. It is not bound to the call: a client that was cut off asks again.
func (ls *Leases) acquire(c *Caller, r *Request, l *lease) {
	mutex := ls.mutex(c, r)
	if r.Wait <= 0 {
		held, err := mutex.TryLock(context.Background())
		ls.decide(l, held, err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ls.mu.Lock()
	l.stop = stop
	gone := l.state != Waiting // released since
	ls.mu.Unlock()
	if gone {
		stop()
	}
	ls.workers.do(func() {
		defer stop()
		held, err := mutex.Lock(ctx)
		ls.decide(l, held, err)
	})
}

// mutex is the lock of a client, as it is in the store.
func (ls *Leases) mutex(c *Caller, r *Request) *fencelock.Mutex {
	opts := []fencelock.LockOption{fencelock.OwnedBy(c.Handle.holder(c.User))}
	if r.Reason != "" {
		opts = append(opts, fencelock.Reason(r.Reason))
	}
	if ls.carries {
		opts = append(opts, fencelock.ReentrantAs(c.Handle.reentry(c.User, r.Lock, r.ID)))
	}
	return ls.client.Mutex(r.Lock, opts...)
}

// decide notes how an acquisition ended.
func (ls *Leases) decide(l *lease, held *fencelock.Lease, err error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	close(l.decided)
	switch {
	case l.state != Waiting: // released, or not named any more
		ls.unlockLaterLocked(held)
	case errors.Is(err, fencelock.ErrBusy):
		l.s.dropLocked(l, Busy, nil)
	case err != nil:
		l.s.dropLocked(l, Lost, err)
	default:
		l.holdLocked(held)
	}
}

// maxIdle is how many goroutines without work are kept.
const maxIdle = 16

// workers are goroutines that acquire locks. One that has finished takes the next acquisition: a new goroutine has a small
// stack, and to grow it on the way to the store takes a tenth of the server's processor time for the call.
type workers struct {
	work    chan func()
	idle    atomic.Int32
	closing <-chan struct{}
}

// do runs f in a goroutine.
func (w *workers) do(f func()) {
	select {
	case w.work <- f: // one waits
	default:
		go w.run(f)
	}
}

func (w *workers) run(f func()) {
	for {
		f()
		if w.idle.Add(1) > maxIdle {
			w.idle.Add(-1)
			return
		}
		select {
		case f = <-w.work:
			w.idle.Add(-1)
		case <-w.closing:
			return
		}
	}
}
