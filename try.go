// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock/driver"
)

// once makes one attempt that never waits for a holder. It stands in no line:
// a try must neither take the turn of somebody who waits nor wait for it.
func (d *drive) once(ctx context.Context) (*Lease, error) {
	d.began = d.c.clock.Sent()
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
	case transient(err), errors.Is(err, driver.ErrGone), errors.Is(err, driver.ErrForgotten), errors.Is(err, errSpent):
		err = errors.Join(ErrUnavailable, err)
	}
	return &Error{Op: "try lock", Name: d.name, Engine: d.c.caps.Engine, Err: err}
}
