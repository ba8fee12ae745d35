// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/timing"
)

// busyForLocked returns an error if a try is answered without a call to the store: the
// lock is in this client, or other goroutines of this client wait for it and a try must
// not overtake them. Only an exclusive try can know: shared ones may well fit. sh.mu
// must be held.
func (q *queue) busyForLocked(t *driver.Terms) *Busy {
	switch {
	case t.Reentry != "":
		return nil
	case q.exclusive != nil:
		return &Busy{Name: q.name, Holders: []driver.Holder{*q.holderLocked()}}
	case t.Mode == driver.Exclusive && !q.idle():
		return &Busy{Name: q.name}
	}
	return nil
}

// holderLocked returns this client as the holder of the lock, nil if it is not. sh.mu
// must be held.
func (q *queue) holderLocked() *driver.Holder {
	g := q.exclusive
	if g == nil {
		return nil
	}
	t := g.claim.Terms
	rec := *t.Record
	rec.Labels = maps.Clone(rec.Labels) // the caller may change what it got
	return &driver.Holder{
		Claim: driver.ClaimID{Session: g.s.id, Seq: g.claim.Seq}, Token: g.token, Mode: t.Mode, Weight: t.Weight,
		Reentry: t.Reentry, Record: rec, Age: g.s.c.clock.Sent().Sub(g.granted),
	}
}

func firstHolder(holders []driver.Holder) *driver.Holder {
	if len(holders) == 0 {
		return nil
	}
	return &holders[0]
}

// busy is the error of a try that the client itself answers, with the holders that the
// store knows if the client does not. In a grace period goroutines that wait are in
// nobody's way.
func (a *acquisition) busy(ctx context.Context, b *Busy) error {
	if len(b.Holders) == 0 {
		ctx, cancel := context.WithTimeout(ctx, a.c.opts.CallTimeout)
		defer cancel()
		st, err := a.c.store.Inspect(ctx, a.name)
		switch {
		case err == nil && st.Grace > 0:
			return a.inGrace(st.Grace)
		case err == nil:
			b.Holders = st.Holders[:min(len(st.Holders), driver.MaxHoldersReported)]
		}
	}
	return a.c.opts.Busy(*b)
}

// tryNow makes one attempt that never waits for a holder. It is in no queue:
// a try must neither overtake a waiter nor wait.
func (a *acquisition) tryNow(ctx context.Context) (*Lease, error) {
	began, again := a.c.clock.Sent(), 0
	for {
		l, err := a.tryAttempt(ctx)
		switch {
		// A session that ended, or a store that lost its data, does not answer
		// the question; ask once more with a new session. The withdrawal of the first
		// attempt finds out about lost data, too, and makes the session resume.
		case again == 0 && (errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrReset)):
			again++
		// The session resumes as soon as the store answers: then it says whether it is in a grace
		// period.
		case errors.Is(err, driver.ErrReset) && a.c.clock.Sent().Sub(began) < a.c.opts.CallTimeout &&
			Sleep(ctx, timing.Backoff(again, a.c.opts.TTL/500, a.c.opts.TTL/15, rand.Float64())):
			again++
		case a.outlast && errors.Is(err, ErrGrace) && ctx.Err() == nil && !a.closed():
			began, again = a.c.clock.Sent(), 0
		default:
			return l, a.tryError(ctx, err)
		}
	}
}

func (a *acquisition) tryAttempt(ctx context.Context) (*Lease, error) {
	s, err := a.sh.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	p := a.claimOn(s)
	busy := false
	defer func() {
		if !busy && !a.admitted { // even when the store panics
			p.withdraw()
		}
	}()
	ans, err := p.attempt(ctx)
	if err != nil {
		s.endIfGone(err)
		return nil, err
	}
	if ans.State == driver.Granted {
		return a.admit(ctx, p, &ans)
	}
	busy = true
	p.unwatch()
	if ans.Grace {
		return nil, a.resting(ctx, s, &ans)
	}
	if d := recallTime(&ans, a.c.clock.Sent()); d > 0 {
		return a.awaitRecall(ctx, s, d, busyOf(a.name, &ans))
	}
	return nil, a.c.opts.Busy(busyOf(a.name, &ans))
}

// resting is the error of a try in a grace period. One that outlasts the grace period first
// waits until it is worth trying again. The session is in use meanwhile: with it, the wait
// ends when the client is closed.
func (a *acquisition) resting(ctx context.Context, s *session, ans *answer) error {
	if !a.outlast {
		return a.inGrace(ans.PollAfter)
	}
	end := a.c.clock.Sent().Add(ans.PollAfter)
	a.emitWaiting(ctx, s, waitOf(a.name, ans.Outcome))
	until, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	Sleep(until, timing.HintedPoll(ans.PollAfter, s.trusted()/64, a.c.opts.TTL, rand.Float64()))
	left := max(time.Millisecond, end.Sub(a.c.clock.Sent()))
	if ctx.Err() == nil {
		return a.inGrace(left)
	}
	return a.c.fail(Failure{Op: "try lock", Name: a.name, Waited: a.c.clock.Sent().Sub(a.began), Err: a.endedInGrace(left, CtxError(ctx))})
}

// tryError returns the error of a try as one of the API.
func (a *acquisition) tryError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ErrGrace) && a.outlast && a.closed():
		return ErrClosed
	case errors.Is(err, ErrGrace):
		return err
	case err == nil, errors.Is(err, ErrBusy), errors.Is(err, ErrClosed):
		return err
	case ctx.Err() != nil: // a try waits for the store only
		err = Unavailable(CtxError(ctx))
	case a.closed():
		return ErrClosed
	case Transient(err), errors.Is(err, driver.ErrGone), errors.Is(err, driver.ErrReset), errors.Is(err, errTooLate):
		err = Unavailable(err)
	}
	return a.c.fail(Failure{Op: "try lock", Name: a.name, Err: err})
}

// A try that finds a holder which may be idle queues a claim, so that the holder is
// notified, and waits a moment for the answer: to its caller the lock is free. Whether the
// holder is idle is not known to the store. One that is not makes the try wait unsuccessfully, so
// the wait is short.

// recallSlack and recallTrips are what a recall takes at most on a machine under load: the
// notice, the withdrawal and the push are two round trips.
const (
	recallSlack = 50 * time.Millisecond
	recallTrips = 8
)

// recallTime returns how long a try waits for the lock to be given back, or 0 if no holder
// lingers.
func recallTime(ans *answer, now clock.Instant) time.Duration {
	var longest time.Duration
	for _, h := range ans.Holders {
		longest = max(longest, h.Linger)
	}
	return min(longest, recallSlack+recallTrips*now.Sub(ans.sent))
}

func busyOf(name string, ans *answer) Busy {
	return Busy{Name: name, Holders: ans.Holders}
}

// awaitRecall waits for a lock that may be idle. It is in no queue of the client.
func (a *acquisition) awaitRecall(ctx context.Context, s *session, d time.Duration, busy Busy) (*Lease, error) {
	wait, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	p := a.claimOn(s)
	p.claim.Queue = true
	defer func() {
		if !a.admitted { // even when the store panics
			p.withdraw()
		}
	}()
	for polls := 1; ; polls++ {
		ans, err := p.attempt(ctx)
		if err != nil {
			s.endIfGone(err)
			return nil, err
		}
		switch {
		case ans.State == driver.Granted:
			return a.admit(ctx, p, &ans)
		case ans.Grace: // the store lost its data meanwhile
			return nil, a.inGrace(ans.PollAfter)
		case ans.State != driver.Queued, ans.Position > 0, wait.Err() != nil:
			return nil, a.c.opts.Busy(busy) // others wait already, or it is not idle
		}
		// A push is not enough: only an attempt knows how much is left of a MaxHold.
		if _, err := p.await(wait, &ans, polls); err != nil && wait.Err() == nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, a.c.opts.Busy(busy)
		}
	}
}
