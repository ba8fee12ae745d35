// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
)

// seen is what the calls for a queue last learned from the store. An acquisition
// that gives up reports it, even if another goroutine made the calls. Guarded by
// the shard's mutex.
type seen struct {
	// answered is set when the store has answered an attempt.
	answered bool
	// err is of the last call, if that failed.
	err error
	// holder is in the way, if the store named one.
	holder *driver.Holder
	// grace is zero, or when the store's grace period ends.
	grace clock.Instant
}

// noteAnswer keeps what the store answered to a claim that has to wait.
func (a *acquisition) noteAnswer(s *session, out driver.Outcome) {
	at := seen{answered: true, holder: firstHolder(out.Holders)}
	if out.Grace {
		at.grace = a.c.clock.Sent().Add(out.PollAfter)
	}
	a.sh.mu.Lock()
	a.q.seen = at
	if !out.Grace { // which is a wait for no holder
		a.beginWaitLocked(s)
	}
	a.sh.mu.Unlock()
}

// noteFailure keeps the error of a call that the store did not answer.
func (a *acquisition) noteFailure(err error) {
	a.sh.mu.Lock()
	a.q.seen.err = err
	a.sh.mu.Unlock()
}

// expired is the error of an acquisition whose context ended while it waited. It
// is ErrUnavailable too if the wait was for the store and not for a holder, and ErrGrace
// too if the store grants nothing for now.
func (a *acquisition) expired(ctx context.Context) error {
	f := Failure{Op: "lock", Name: a.name, Waited: a.c.clock.Sent().Sub(a.began), Err: CtxError(ctx)}
	a.sh.mu.Lock()
	at, own := a.q.seen, a.q.holderLocked()
	a.sh.mu.Unlock()
	left := at.grace.Sub(a.c.clock.Sent())
	switch {
	case own != nil:
		f.Holder = own
	case !at.answered || at.err != nil:
		f.Err = Unavailable(at.err, f.Err)
	case left > 0:
		f.Err = a.endedInGrace(left, f.Err)
	default:
		f.Holder = at.holder
	}
	return a.c.fail(f)
}

// inGrace is the error of an acquisition that a grace period is in the way of.
func (a *acquisition) inGrace(left time.Duration) error {
	return a.c.opts.Grace(Grace{Name: a.name, RetryAfter: left})
}

// endedInGrace is why a wait ended whose context ended in a grace period.
func (a *acquisition) endedInGrace(left time.Duration, why error) error {
	return &chained{text: InGrace(left).Error() + ": " + Unprefixed(why), errs: []error{a.inGrace(left), why}}
}

// emitWaiting reports once that the acquisition has to wait, and for whom. Without a
// session it waits in the client's own queue.
func (a *acquisition) emitWaiting(ctx context.Context, s *session, w Wait) {
	if a.waitReported || !a.c.watched() {
		return
	}
	a.waitReported = true
	e := Event{Kind: LeaseWaiting, Shard: a.sh.id, Name: a.name, Holder: w.Holder, Position: w.Position, Grace: w.Grace}
	if s != nil {
		e.Session = s.id
	}
	a.c.emit(e)
	a.c.opts.Observer.Waiting(ctx, w)
}

// waitOf is what the store answered to a claim that has to wait.
func waitOf(name string, out driver.Outcome) Wait {
	w := Wait{Name: name, Holder: firstHolder(out.Holders), Position: out.Position}
	if out.Grace {
		w.Grace = out.PollAfter
	}
	return w
}

// selfBlocked reports the wait of the first in the client's own queue if one lease
// of the same client has been in its way for longer than a TTL, and reports whether
// it did.
func (a *acquisition) selfBlocked(w *waiter) bool {
	a.sh.mu.Lock()
	own, first := a.q.holderLocked(), a.q.first == w
	a.sh.mu.Unlock()
	if own == nil || !first || own.Age < a.c.opts.TTL {
		return false
	}
	a.c.emit(Event{Kind: LeaseSelfBlocked, Shard: a.sh.id, Session: own.Claim.Session, Name: a.name,
		Holder: own, Waited: a.c.clock.Sent().Sub(a.began)})
	return true
}
