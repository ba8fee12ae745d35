// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// leaderName is the name of the election of a schedule.
const leaderName = "leader"

// candidate is a goroutine that campaigns in the election.
type candidate struct {
	*worker
	e    *fencelock.Election
	keep time.Duration // MinHold of its terms
	id   int           // the acquisition under way, or the term
}

type campaignKey struct{}

var errHadEnough = errors.New("had enough")

func newCandidate(p *process) *candidate {
	c := &candidate{worker: newWorker(p, p.plan.Workers)}
	var opts []fencelock.LockOption
	if c.w.s.Seed%4 == 0 {
		c.keep = c.w.s.T / 10
		opts = append(opts, fencelock.MinHold(c.keep))
	}
	c.e = p.client.Election(leaderName, opts...)
	return c
}

// hooks writes down the acquisitions that an election makes by itself.
func (w *world) hooks(p *process) fencelock.Hooks {
	h := fencelock.Hooks{Event: p.event}
	if !w.s.Election {
		return h
	}
	h.AcquireStart = func(ctx context.Context, s fencelock.AcquireStart) context.Context {
		if c, ok := ctx.Value(campaignKey{}).(*candidate); ok && s.Name == leaderName {
			end, _ := ctx.Deadline()
			c.id = w.rec.call(Event{Client: p.index, Worker: c.index, Name: leaderName, Mode: driver.Exclusive, Weight: 1,
				D: time.Until(end), Keep: c.keep})
		}
		return ctx
	}
	h.AcquireEnd = func(ctx context.Context, e fencelock.AcquireEnd) {
		if c, ok := ctx.Value(campaignKey{}).(*candidate); ok && e.Name == leaderName {
			w.returned(p.index, c.index, c.id, e.Lease, e.Err)
		}
	}
	return h
}

// event records what a client lost or handed off to one of its waiters.
func (p *process) event(e fencelock.Event) {
	p.w.cover.event(e)
	switch e.Kind {
	case fencelock.SessionLost:
		p.lost.Store(e.Session, true)
		p.w.rec.add(Event{Kind: SessionLost, Client: p.index, Session: e.Session, Err: e.Err})
	case fencelock.SessionClosed:
		p.w.rec.add(Event{Kind: SessionClosed, Client: p.index, Session: e.Session})
	case fencelock.LeaseLost:
		p.w.rec.add(Event{Kind: LeaseLost, Client: p.index, Name: e.Name, Token: e.Token, Err: e.Err})
	case fencelock.LeaseHandedOff:
		p.w.rec.add(Event{Kind: HandedOff, Client: p.index, Name: e.Name, Token: e.Token})
	}
}

// run campaigns until the storm is over, and once in the quiet time.
func (c *candidate) run() {
	s := c.w.s
	for c.w.rec.now() < s.End {
		if !c.p.sleep(share(c.r, s.T, 0, 0.5)) {
			return
		}
		c.campaign(max(0, min(share(c.r, s.T, 1, 6), s.End+2*s.T-c.w.rec.now())), pick(c.r, byReturning, byFailing, byResigning, byResigning))
	}
	if !c.p.sleep(s.Clear() + share(c.r, s.T, 0.01, 0.1) - c.w.rec.now()) {
		return
	}
	c.campaign(s.Bound(), byReturning)
}

// The ways in which a term ends if it is not lost.
const (
	byReturning = iota
	byFailing
	byResigning
)

// campaign runs the election for a while.
func (c *candidate) campaign(patience time.Duration, way int) {
	ctx, cancel := context.WithTimeout(context.WithValue(c.p.alive, campaignKey{}, c), patience)
	defer cancel()
	err := c.e.Run(ctx, func(ctx context.Context, l *fencelock.Lease) error { return c.lead(ctx, l, way) })
	expected := way == byReturning && err == nil || way == byFailing && errors.Is(err, errHadEnough) ||
		ctx.Err() != nil && errors.Is(err, ctx.Err()) || errors.Is(err, fencelock.ErrClosed)
	c.w.rec.add(Event{Kind: Campaigned, Client: c.p.index, Worker: c.index, OK: expected, Err: err})
}

// lead is one term.
func (c *candidate) lead(ctx context.Context, l *fencelock.Lease, way int) error {
	c.w.cover.add("election: led")
	hold, id := c.bounded(share(c.r, c.w.s.T, 0, 0.4)), c.id
	if c.w.rec.now() < c.w.s.Clear() && c.r.IntN(4) == 0 {
		hold = c.bounded(share(c.r, c.w.s.T, 0.4, 2))
	}
	if c.w.rec.now() >= c.w.s.Clear() {
		hold = 0
	}
	defer func() { c.w.rec.add(Event{Kind: Unlocking, Client: c.p.index, Worker: c.index, Acq: id}) }()
	o := op{name: Name{Name: leaderName}, weight: 1}
	if c.step(ctx, o, id, l, hold) {
		switch way {
		case byReturning:
			return nil
		case byFailing:
			return errHadEnough
		}
		c.p.aside.Go(func() { c.resign(id) })
	} else if c.w.rec.now() >= c.w.s.Clear() {
		// The guard rejects the token for good: the store lost its data and its clock
		// was set back. A leader that stays would only keep others from trying.
		return nil
	}
	if !c.rude || ctx.Err() == nil {
		<-ctx.Done()
	}
	c.p.machine.wait()
	if errors.Is(l.Err(), fencelock.ErrLost) {
		c.w.cover.add("election: lost")
	}
	return ctx.Err()
}

// resign ends the term from outside.
func (c *candidate) resign(id int) {
	ctx, cancel := context.WithTimeout(context.Background(), c.w.s.T)
	defer cancel()
	err := c.e.Resign(ctx)
	c.w.rec.add(Event{Kind: Resigned, Client: c.p.index, Worker: c.index, Acq: id, OK: err == nil, Err: err})
	c.w.cover.add("election: resigned")
}

// observe writes down whom the store has as the leader.
func (c *candidate) observe(ctx context.Context) {
	for h, err := range c.e.Observe(ctx) {
		e := Event{Kind: Observed, Client: c.p.index, Err: err, OK: err == nil}
		if h != nil {
			e.Token, e.Keep = h.Token, 0
			if h.Kept {
				e.Keep = h.EndsIn
			}
		}
		c.w.rec.add(e)
		c.w.cover.add("election: observed")
	}
}
