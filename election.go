// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"

	"github.com/fencelock/fencelock/internal/timing"
)

// ErrResigned is the cause of a term's context after Resign.
var ErrResigned = errors.New("fencelock: leader resigned")

// Election makes one of many candidates the leader. The leader's term is a
// lease of the lock with the election's name; its token is the term's number,
// and a later term has a greater one.
type Election struct {
	c  *Client
	mu *Mutex

	lock sync.Mutex
	term *term // of this process, if it leads
}

// term is one time of leading.
type term struct {
	cancel context.CancelCauseFunc
	over   chan struct{} // closed when the lock was given back
}

// Election returns an election of that name. It does no I/O.
func (c *Client) Election(name string, opts ...Option) *Election {
	return &Election{c: c, mu: c.Mutex(name, opts...)}
}

// Run campaigns, and calls lead each time this process becomes the leader. The
// context of lead ends when the term does: lost, resigned, or with ctx. Run
// waits for lead to return before it gives the lock back, and campaigns again
// by itself after a loss, after Resign, and while the store is unavailable. It
// returns when ctx ends, when lead returns during its term (with its error), or
// when the client is closed or the store refuses for good.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term *Lease) error) error {
	for failures := 1; ; failures++ {
		l, err := e.mu.Lock(ctx)
		switch {
		case err == nil:
			failures = 0
			if again, err := e.serve(ctx, l, lead); !again {
				return err
			}
		case !errors.Is(err, ErrUnavailable):
			return err
		default:
			ttl := e.c.opts.TTL
			if !sleep(ctx, timing.Backoff(failures, ttl/50, ttl/3, rand.Float64())) {
				return ctxError(ctx)
			}
		}
	}
}

// serve leads for one term and says whether to campaign again.
func (e *Election) serve(ctx context.Context, l *Lease, lead func(context.Context, *Lease) error) (again bool, err error) {
	bound, stop := l.bind(ctx)
	termCtx, cancel := context.WithCancelCause(bound)
	t := &term{cancel: cancel, over: make(chan struct{})}
	e.setTerm(t)
	defer func() { // also when lead panics
		e.endTerm(t)
		lostIt := l.Unlock(ctx)
		cancel(ErrReleased)
		stop()
		close(t.over)
		if again && errors.Is(lostIt, ErrLost) {
			return // that is why we campaign again
		}
		err = errors.Join(err, lostIt)
	}()
	err = lead(termCtx, l)
	switch {
	case ctx.Err() != nil:
		return false, errors.Join(ctxError(ctx), unlessIs(err, ctx.Err()))
	case errors.Is(l.Err(), ErrLost), errors.Is(context.Cause(termCtx), ErrResigned):
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

func (e *Election) setTerm(t *term) {
	e.lock.Lock()
	e.term = t
	e.lock.Unlock()
}

// endTerm forgets a term unless another has begun.
func (e *Election) endTerm(t *term) {
	e.lock.Lock()
	if e.term == t {
		e.term = nil
	}
	e.lock.Unlock()
}

// Resign ends the term of this process, if it leads: it ends the context of
// lead, and waits, as long as ctx allows, until lead has returned and the lock
// was given back. Run then campaigns again, behind those who wait. Inside lead
// simply return instead: Resign would wait for itself.
func (e *Election) Resign(ctx context.Context) error {
	e.lock.Lock()
	t := e.term
	e.lock.Unlock()
	if t == nil {
		return nil
	}
	t.cancel(ErrResigned)
	select {
	case <-t.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("fencelock: resign %q: lead has not returned: %w", e.mu.h.name, ctxError(ctx))
	}
}

// Leader returns who leads now, as the store sees it, or nil if nobody does.
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
// ends. It looks an eighth of a TTL after the last look, so a short term can be
// missed; the terms it yields never go back. An error of the store is yielded
// once, and observing goes on.
func (e *Election) Observe(ctx context.Context) iter.Seq2[*Holder, error] {
	return func(yield func(*Holder, error) bool) {
		last, failing := Token(-1), false
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
			case err == nil && token != last && (token == 0 || token > last):
				if !yield(h, nil) {
					return
				}
				last = token
			}
			failing = err != nil
			if !sleep(ctx, timing.Backoff(1, e.c.opts.TTL/8, e.c.opts.TTL/8, rand.Float64())) {
				return
			}
		}
	}
}
