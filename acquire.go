// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/timing"
)

// acquire gets a lease for the handle, waiting for it unless try is set.
func (h *handle) acquire(ctx context.Context, try bool) (*Lease, error) {
	if h.err != nil {
		return nil, h.err
	}
	hooks := &h.c.opts.Hooks
	if hooks.AcquireStart == nil && hooks.AcquireEnd == nil {
		return h.get(ctx, try)
	}
	start := AcquireStart{Name: h.name, Mode: h.wish.terms.Mode, Engine: h.c.caps.Engine, Try: try}
	if hooks.AcquireStart != nil {
		ctx = hooks.AcquireStart(ctx, start)
	}
	began := time.Now()
	l, err := h.get(ctx, try)
	if hooks.AcquireEnd != nil {
		hooks.AcquireEnd(ctx, AcquireEnd{AcquireStart: start, Lease: l, Waited: time.Since(began), Err: err})
	}
	return l, err
}

func (h *handle) get(ctx context.Context, try bool) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, ctxError(ctx)
	}
	terms := h.terms(ctx)
	if l, err := reenter(ctx, h.c, h.name, terms); l != nil || err != nil {
		return l, err
	}
	sh := h.sh
	d := &drive{c: h.c, sh: sh, name: h.name, terms: terms, try: try}
	if h.c.watched() {
		d.began = h.c.clock.Sent()
	}
	sh.mu.Lock()
	if sh.closed {
		sh.mu.Unlock()
		return nil, ErrClosed
	}
	ln := sh.line(h.name)
	if try {
		busy := ln.busyFor(terms)
		sh.tidy(ln)
		sh.mu.Unlock()
		if busy != nil {
			return nil, d.named(ctx, busy)
		}
		return d.once(ctx)
	}
	if terms.Reentry != "" {
		// It may join a grant that is here already, so it must not wait for it:
		// it drives a line of its own.
		sh.tidy(ln)
		ln = &line{name: h.name}
	}
	if ln.idle() {
		ln.driven = true
		sh.mu.Unlock()
		d.ln = ln
		return d.run(ctx)
	}
	w := h.c.newWaiter(terms)
	ln.push(w)
	var holder *Holder
	if h.c.watched() {
		holder = ln.holder()
	}
	sh.mu.Unlock()
	d.ln = ln
	d.waiting(ctx, nil, holder, 0)
	return d.wait(ctx, w)
}

// drive is one acquisition while it makes the calls for its line.
type drive struct {
	c     *Client
	sh    *shard
	ln    *line // nil for a try
	name  string
	terms *driver.Terms
	try   bool
	began clock.Instant // of waiting, for events
	told  bool          // LeaseWaiting was emitted
	bad   int           // failures in a row
	badAt clock.Instant // of the first of them
	looks int           // looks in a row that were not granted
	spent int           // grants that came too late for their fixed end
	// together are the readers that share the grant, for events.
	together []*Lease
}

// wait waits for a turn in the local line.
func (d *drive) wait(ctx context.Context, w *waiter) (*Lease, error) {
	t, ok := d.turn(ctx, w)
	d.c.recycle(w)
	switch {
	case !ok:
		return nil, ctxError(ctx)
	case t.err != nil:
		return nil, t.err
	case t.lease != nil:
		t.lease.base = ctx
		return t.lease, nil
	}
	return d.run(ctx)
}

// turn returns the waiter's turn, or false if ctx ended first.
func (d *drive) turn(ctx context.Context, w *waiter) (turn, bool) {
	done := ctx.Done()
	if done == nil {
		return <-w.ready, true // cheaper than a select
	}
	select {
	case t := <-w.ready:
		return t, true
	case <-done:
	}
	d.sh.mu.Lock()
	dropped := d.ln.drop(w)
	d.sh.mu.Unlock()
	if !dropped {
		// The turn came at the same moment. It is somebody else's chance: hand
		// it on, or those behind would wait for ever.
		d.passOn(<-w.ready)
	}
	return turn{}, false
}

// passOn hands an unwanted turn to the next.
func (d *drive) passOn(t turn) {
	if t.lease != nil {
		// No result: the lease was never anybody's. Whatever the store says,
		// the settler sees to it.
		d.c.background(func() { _ = t.lease.Unlock(context.Background()) })
	} else if t.err == nil {
		d.giveUp(nil)
	}
}

// run makes the calls until the claim is granted, ctx ends or the store
// refuses for good.
func (d *drive) run(ctx context.Context) (*Lease, error) {
	for {
		s, err := d.sh.enter(ctx)
		if err == nil {
			var l *Lease
			l, err = d.on(ctx, s)
			s.leave()
			s.gone(err)
			if l != nil {
				return l, nil
			}
		}
		if err = d.judge(ctx, err); err != nil {
			return nil, d.giveUp(err)
		}
	}
}

// on attempts and waits on one session until there is a lease or an error.
func (d *drive) on(ctx context.Context, s *session) (*Lease, error) {
	p := d.claimOn(s)
	for {
		out, gen, sent, err := p.attempt(ctx)
		if err != nil {
			return nil, err
		}
		if out.State != driver.Absent {
			d.bad = 0
		}
		for out.State == driver.Queued || out.State == driver.Busy {
			d.waiting(ctx, s, firstHolder(out.Holders), out.Place)
			var pushed driver.Outcome
			if pushed, gen, err = d.await(ctx, p, out); err != nil {
				return nil, err
			}
			if pushed.State != driver.Granted || d.terms.MaxHold > 0 {
				break // look again; for a fixed end also to learn how much is left
			}
			out, sent = pushed, d.c.clock.Sent()
		}
		switch out.State {
		case driver.Granted:
			l, err := d.admit(ctx, p, out, gen, sent)
			if l != nil || errors.Is(err, driver.ErrGone) {
				return l, err
			}
			if errors.Is(err, errSpent) {
				d.disown(p).withdraw()
				if d.spent++; d.spent == maxSpent {
					return nil, errSpent
				}
				p = d.claimOn(s)
			}
		case driver.Absent: // granted and over before we knew: wish anew
			d.disown(p).withdraw()
			return nil, fmt.Errorf("the claim was removed: %w", driver.ErrUnavailable)
		}
	}
}

// disown makes the line forget its claim.
func (d *drive) disown(p *pending) *pending {
	d.sh.mu.Lock()
	defer d.sh.mu.Unlock()
	d.ln.pending = nil
	return p
}

// claimOn returns the line's claim on this session, a new one if there is none.
func (d *drive) claimOn(s *session) *pending {
	d.sh.mu.Lock()
	defer d.sh.mu.Unlock()
	if d.ln != nil && d.ln.pending != nil && d.ln.pending.s == s {
		return d.ln.pending
	}
	p := &pending{s: s, claim: driver.Claim{Seq: s.seq.Add(1), Name: d.name, Terms: d.terms, Queue: !d.try}}
	if d.ln != nil {
		d.ln.pending = p
	}
	return p
}

// attempt makes one bounded call. What it returns belongs to incarnation gen.
func (p *pending) attempt(ctx context.Context) (out driver.Outcome, gen uint64, sent clock.Instant, err error) {
	s := p.s
	s.sh.mu.Lock()
	drv := s.drv
	gen = s.gen
	s.sh.mu.Unlock()
	call, over := s.attempts.context(ctx)
	defer over()
	sent = s.c.clock.Sent()
	p.sent = true
	out, err = drv.Attempt(call, &p.claim)
	if err != nil && transient(err) {
		p.unsure = true
	}
	return out, gen, sent, err
}

// await returns when another attempt is worth making, or with a pushed grant.
func (d *drive) await(ctx context.Context, p *pending, out driver.Outcome) (driver.Outcome, uint64, error) {
	s := p.s
	s.sh.mu.Lock()
	drv, gen := s.drv, s.gen
	s.sh.mu.Unlock()
	d.looks++
	least := s.trusted() / 64 // a store's hint of 0.1 ms must not make us spin
	until, cancel := context.WithTimeout(ctx, timing.Look(out.LookAfter, least, s.c.opts.TTL, rand.Float64()))
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel) // a waiter's own session may die
	defer stop()
	pushed, err := drv.Await(until, &p.claim)
	switch {
	case ctx.Err() != nil:
		return pushed, gen, ctxError(ctx)
	case s.ctx.Err() != nil:
		return pushed, gen, driver.ErrGone
	case err == nil && pushed.State == driver.Granted:
		d.looks = 0
		return pushed, gen, nil
	case until.Err() != nil:
		return driver.Outcome{}, gen, nil // time to look
	case err != nil:
		return pushed, gen, err
	}
	// Nothing was pushed and it is not time yet: a store that can only be
	// polled, or a wake-up for nothing.
	if !sleep(until, timing.Poll(d.looks, s.c.opts.TTL, rand.Float64())) && ctx.Err() != nil {
		return pushed, gen, ctxError(ctx)
	}
	return driver.Outcome{}, gen, nil
}

// judge decides whether to go on after an error: nil means try again.
func (d *drive) judge(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctxError(ctx)
	case errors.Is(err, ErrClosed), d.closed():
		return ErrClosed
	case errors.Is(err, driver.ErrGone) && d.bad == 0:
		d.bad, d.badAt = 1, d.c.clock.Sent()
		return nil // with a new session; but if that ends too, not at once
	case errors.Is(err, driver.ErrGone):
	case errors.Is(err, driver.ErrForgotten):
		d.resume()
	case !transient(err):
		return &Error{Op: "lock", Name: d.name, Engine: d.c.caps.Engine, Err: err}
	}
	if d.bad == 0 {
		d.badAt = d.c.clock.Sent()
	}
	d.bad++
	if waited := d.c.clock.Sent().Sub(d.badAt); waited >= d.c.opts.Patience {
		return &Error{Op: "lock", Name: d.name, Engine: d.c.caps.Engine, Err: fmt.Errorf("%w: %w", ErrUnavailable, err),
			Hint: "it has not answered for " + waited.Round(time.Millisecond).String() + " (Options.Patience)"}
	}
	if !sleep(ctx, timing.Backoff(d.bad, d.c.opts.TTL/500, d.c.opts.TTL/15, rand.Float64())) {
		return ctxError(ctx)
	}
	return nil
}

// closed says whether the client was: Close cuts calls short, and what they then
// say is not the answer.
func (d *drive) closed() bool {
	d.sh.mu.Lock()
	defer d.sh.mu.Unlock()
	return d.sh.closed
}

func (d *drive) resume() {
	d.sh.mu.Lock()
	s := d.sh.session
	d.sh.mu.Unlock()
	if s != nil {
		s.resumeSoon()
	}
}

// giveUp stops driving without a lease.
func (d *drive) giveUp(err error) error {
	d.sh.mu.Lock()
	stale := d.sh.baton(d.ln)
	d.sh.mu.Unlock()
	stale.withdraw()
	return err
}

// waiting tells once that the acquisition has to wait, and for whom.
func (d *drive) waiting(ctx context.Context, s *session, holder *Holder, place int) {
	if d.told || !d.c.watched() {
		return
	}
	d.told = true
	e := Event{Kind: LeaseWaiting, Shard: d.sh.id, Name: d.name, Holder: holder, Place: place}
	if s != nil {
		e.Session = s.id
	}
	d.c.emit(e)
	if hook := d.c.opts.Hooks.AcquireWait; hook != nil {
		hook(ctx, AcquireWait{Name: d.name, Holder: holder, Place: place})
	}
}
