// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencelock/fencelock/driver"
)

// busyFor says whether a try is answered without asking the store: the lock is
// in this client, or others of this client wait for it and a try must not take
// their turn. Only an exclusive try can know: shared ones may well fit. Wants
// sh.mu.
func (ln *line) busyFor(t *driver.Terms) *BusyError {
	switch {
	case t.Reentry != "":
		return nil
	case ln.exclusive != nil:
		return &BusyError{Name: ln.name, Holders: []Holder{*ln.holder()}}
	case t.Mode == driver.Exclusive && (ln.driven || ln.first != nil):
		return &BusyError{Name: ln.name}
	}
	return nil
}

// holder is this client as the holder of the lock, nil if it is not. Wants
// sh.mu.
func (ln *line) holder() *Holder {
	g := ln.exclusive
	if g == nil {
		return nil
	}
	t := g.claim.Terms
	return &Holder{
		Claim: driver.ClaimID{Session: g.s.id, Seq: g.claim.Seq}, Token: g.token, Mode: t.Mode, Weight: t.Weight,
		Reentry: t.Reentry, Record: *t.Record, Age: g.s.c.clock.Sent().Sub(g.granted),
	}
}

func firstHolder(holders []Holder) *Holder {
	if len(holders) == 0 {
		return nil
	}
	return &holders[0]
}

// named asks the store for the holder if we do not know it.
func (d *drive) named(ctx context.Context, busy *BusyError) error {
	if len(busy.Holders) == 0 {
		if st, err := d.c.Inspect(ctx, d.name); err == nil {
			busy.Holders = st.Holders[:min(len(st.Holders), driver.MaxHoldersTold)]
		}
	}
	return busy
}

// once makes one attempt that never waits for a holder. It stands in no line:
// a try must neither take the turn of somebody who waits nor wait for it.
func (d *drive) once(ctx context.Context) (*Lease, error) {
	for again := true; ; again = false {
		l, err := d.tryOnce(ctx)
		// A session that ended, or a store that lost its memory, is no answer
		// to the question; ask once more with a new session.
		if again && (errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrForgotten)) {
			d.resume()
			continue
		}
		return l, d.tryError(ctx, err)
	}
}

func (d *drive) tryOnce(ctx context.Context) (*Lease, error) {
	s, err := d.sh.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	p := d.claimOn(s)
	out, gen, sent, err := p.attempt(ctx)
	if err != nil {
		s.gone(err)
		p.withdraw()
		return nil, err
	}
	if out.State == driver.Granted {
		l, err := d.admit(ctx, p, out, gen, sent)
		if l == nil {
			p.withdraw()
		}
		return l, err
	}
	return nil, &BusyError{Name: d.name, Holders: out.Holders, Grace: out.Grace, RetryAfter: out.LookAfter}
}

// tryError says what became of a try in the words of this package.
func (d *drive) tryError(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.Is(err, ErrBusy), errors.Is(err, ErrClosed):
		return err
	case ctx.Err() != nil:
		return ctxError(ctx)
	case d.closed():
		return ErrClosed
	case transient(err), errors.Is(err, driver.ErrGone), errors.Is(err, driver.ErrForgotten), errors.Is(err, errSpent):
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return &Error{Op: "try lock", Name: d.name, Engine: d.c.caps.Engine, Err: err}
}
