// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencelock/fencelock/internal/core"
	"github.com/fencelock/fencelock/internal/timing"
)

// ErrResigned is the cause of a term's context after Resign. lead returns it, or an
// error that wraps it, to step down and campaign again.
var ErrResigned = errors.New("fencelock: leader resigned")

// Election makes one of many candidates the leader. The leader's term is a
// lease of the lock with the election's name; its token is the term's number,
// and a later term has a greater one. Unlike other handles it has a state: Resign
// ends the term of the Run that was called on the same Election. Its methods are safe for
// concurrent use; call Run once at a time.
type Election struct {
	c  *Client
	mu *Mutex

	lock    sync.Mutex
	running int   // calls of Run
	term    *term // of this Election, if it leads
}

// term is one time of leading.
type term struct {
	lease  *Lease
	cancel context.CancelCauseFunc
	over   chan struct{} // closed when the lock was given back
}

// Election returns an election of that name. It does no I/O.
func (c *Client) Election(name string, opts ...LockOption) *Election {
	return &Election{c: c, mu: c.Mutex(name, opts...).sole("an election")}
}

// Run campaigns, and calls lead each time this process becomes the leader. The context of lead
// ends with the term: when it is lost or resigned, or when ctx ends.
//
// Run waits for lead before it gives the lock back. It campaigns again after a loss,
// after [Election.Resign] and while the store is unavailable, with a pause if terms end at once.
// Run returns when ctx ends (with its error), when lead returns during its term (with its error, but see
// [ErrResigned]), when the client is closed, or when the store refuses for good.
//
// lead must not unlock its term: it returns [ErrResigned] instead. Under the context of a lease of
// the same name, Run campaigns like any other candidate.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term *Lease) error) error {
	e.countRunning(1)
	defer e.countRunning(-1)
	ttl := e.c.opts.TTL
	failures, short := 0, 0 // in a row: acquisitions that failed, terms that ended at once
	for {
		l, err := e.mu.Lock(ctx)
		switch {
		case err == nil:
			began := time.Now()
			if again, err := e.serve(ctx, l, lead); !again {
				return err
			}
			failures = 0
			short++
			if time.Since(began) >= ttl/50 {
				short = 0
			}
			if short < 2 {
				continue
			}
			// A leader that resigns each term at once must not make this loop
			// as fast as the store answers.
		case ctx.Err() != nil && errors.Is(err, ErrGrace):
			return err
		case ctx.Err() != nil: // the same answer whether it led or campaigned
			return core.CtxError(ctx)
		case !errors.Is(err, ErrUnavailable):
			return err
		default:
			failures++
		}
		if !core.Sleep(ctx, timing.Backoff(max(failures, short-1), ttl/50, ttl/3, rand.Float64())) {
			return core.CtxError(ctx)
		}
	}
}

// serve leads for one term and reports whether to campaign again.
func (e *Election) serve(ctx context.Context, l *Lease, lead func(context.Context, *Lease) error) (again bool, err error) {
	bound, stop := l.WithContext(ctx)
	termCtx, cancel := context.WithCancelCause(bound)
	t := &term{lease: l, cancel: cancel, over: make(chan struct{})}
	e.setTerm(t)
	defer func() { // even when lead panics
		e.endTerm(t)
		lostIt := l.Unlock(ctx)
		cancel(ErrReleased)
		stop()
		close(t.over)
		if again && errors.Is(lostIt, ErrLost) {
			return // that is why we campaign again
		}
		err = joined(err, lostIt)
	}()
	err = lead(termCtx, l)
	switch {
	case ctx.Err() != nil:
		return false, joined(core.CtxError(ctx), unlessIs(err, ctx.Err()))
	case errors.Is(l.Err(), ErrLost), errors.Is(context.Cause(termCtx), ErrResigned), errors.Is(err, ErrResigned):
		// The lease is asked too: lead may have seen the loss there before its
		// context said so. An error that is about neither is lead's own.
		err = unlessIs(unlessIs(unlessIs(err, context.Canceled), ErrLost), ErrResigned)
		return err == nil, err
	}
	return false, err
}

// unlessIs returns err unless it is about target.
func unlessIs(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}

func (e *Election) countRunning(n int) {
	e.lock.Lock()
	e.running += n
	e.lock.Unlock()
}

func (e *Election) setTerm(t *term) {
	e.lock.Lock()
	e.term = t
	e.lock.Unlock()
}

// endTerm drops a term unless another has begun.
func (e *Election) endTerm(t *term) {
	e.lock.Lock()
	if e.term == t {
		e.term = nil
	}
	e.lock.Unlock()
}

// Resign ends the present term of Run on the same Election: it ends the context of lead,
// and waits, as long as ctx allows, until lead has returned and the lock was given back.
// Run then campaigns again, behind the other waiters. It does nothing while Run campaigns,
// and is an error if Run was not called or has returned. Inside lead return [ErrResigned]
// instead: Resign would wait for itself.
func (e *Election) Resign(ctx context.Context) error {
	e.lock.Lock()
	t, running := e.term, e.running
	e.lock.Unlock()
	if running == 0 {
		return fmt.Errorf("fencelock: resign %q: Run was not called on this Election, or has returned; resign on the Election that runs", e.mu.h.name)
	}
	if t == nil {
		return nil
	}
	t.cancel(ErrResigned)
	select {
	case <-t.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("fencelock: resign %q: lead has not returned: %w", e.mu.h.name, core.CtxError(ctx))
	}
}

// Term returns the lease of the present term of Run on the same Election, and nil if this
// process does not lead: while Run campaigns, and from the moment when the lease is no
// longer trusted. It does no I/O and does not block. Like Valid it is advice: the process
// can be paused right after it.
func (e *Election) Term() *Lease {
	e.lock.Lock()
	t := e.term
	e.lock.Unlock()
	if t == nil || !t.lease.Valid() {
		return nil
	}
	return t.lease
}

// Leader returns the leader, as the store sees it, or nil if there is no leader.
func (e *Election) Leader(ctx context.Context) (*Holder, error) {
	st, err := e.c.Inspect(ctx, e.mu.h.name)
	if err != nil {
		return nil, err
	}
	if len(st.Holders) == 0 || st.Holders[0].Kept {
		return nil, nil
	}
	return &st.Holders[0], nil
}

// Observe yields the leader each time it has changed, nil for none, until ctx
// ends. It polls about eight times per TTL, so a short term can be missed; the terms
// it yields never go back. (On a store without tokens terms have no order, and a
// change of leaders is all it sees.) An error of the store is yielded once, and
// observing continues.
func (e *Election) Observe(ctx context.Context) iter.Seq2[*Holder, error] {
	return func(yield func(*Holder, error) bool) {
		// A nil in between must not make an older term new: a replica that lags
		// behind may show one.
		var last *Holder
		newest, yielded, failing := Token(0), false, false
		for {
			h, err := e.Leader(ctx)
			if ctx.Err() != nil {
				return
			}
			token := Token(0)
			if h != nil {
				token = h.Token
			}
			switch {
			case err != nil && !failing && !yield(nil, err):
				return
			case err == nil && (!yielded || !sameTerm(h, last)) && (token == 0 || token > newest):
				if !yield(h, nil) {
					return
				}
				last, newest, yielded = h, max(newest, token), true
			}
			failing = err != nil
			if !core.Sleep(ctx, timing.Backoff(1, e.c.opts.TTL/8, e.c.opts.TTL/8, rand.Float64())) {
				return
			}
		}
	}
}

// sameTerm reports whether two leaders, nil for none, are one term. Without tokens the claim
// distinguishes terms.
func sameTerm(a, b *Holder) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Token == b.Token && (a.Token != 0 || a.Claim == b.Claim)
}
