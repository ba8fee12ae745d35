// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/enum"
)

// OnceOutcome is what became of an occurrence.
type OnceOutcome uint8

const (
	// OnceNotRun: this call did not run it and does not know whether another has; the
	// error is the reason.
	OnceNotRun OnceOutcome = iota
	// OnceFailed: it ran here and returned an error; another may run it.
	OnceFailed
	// OnceRan: it ran here, to the end.
	OnceRan
	// OnceAlreadyRan: it has run before, here or elsewhere.
	OnceAlreadyRan
	// OnceRunningElsewhere: another call runs it now, here or in another process.
	OnceRunningElsewhere
)

// String returns the outcome as words.
func (o OnceOutcome) String() string {
	return enum.String("once outcome", o, "not run", "failed", "ran", "already ran", "running elsewhere")
}

// OnceResult is the answer of Once.Do.
type OnceResult struct {
	// Outcome is what became of the occurrence.
	Outcome OnceOutcome
	// Holder is who ran it or runs it, if it was not this call.
	Holder *Holder
}

// Once runs work once per named occurrence: a scheduled time, a batch number, a
// message id. A lock alone is not enough for that: a replica whose clock is late
// would find it free again. So the mark that it ran stays behind. It is a cheap handle and
// safe for concurrent use.
type Once struct {
	c    *Client
	name string
	keep time.Duration
	opts []LockOption
}

// Once returns a handle. keep is how long the mark of an occurrence stays: choose it longer
// than any replica can be late. Without options an occurrence whose process died or whose
// function failed may be run again. With MinHold(keep) it is not: it counts as run for that
// long. Once does no I/O; a bad value is reported by Do.
func (c *Client) Once(name string, keep time.Duration, opts ...LockOption) *Once {
	return &Once{c: c, name: name, keep: keep, opts: opts}
}

// Do runs fn unless the occurrence has run or is running; it does not wait for a holder. If fn
// fails, the occurrence may be run again.
//
// In a grace period of the store nobody can know whether the occurrence is running. Do then waits
// until the grace period is over, as long as ctx lasts: a nightly job that is due in the minute after a
// failover must not be dropped. If ctx ends first, fn has not run, and the error wraps ErrGrace and the error of ctx.
//
// An error that wraps ErrLost means that the occurrence may run a second time. The lease
// ended before fn did, and another process may have started it; or, with the outcome
// OnceRan, fn ended in time but its mark may be missing. The token fences both cases.
//
// fn must not unlock its lease: Do does. If fn has, the mark is missing, and the error wraps
// ErrLost.
//
// The occurrence is kept as the lock name@occurrence, with an @ in the name
// written as %40. Calling it for the same occurrence inside fn does not
// re-enter: that occurrence is running.
func (o *Once) Do(ctx context.Context, occurrence string, fn func(ctx context.Context, l *Lease) error) (OnceResult, error) {
	hook := o.c.opts.Hooks.OnceEnd
	if hook == nil {
		return o.do(ctx, occurrence, fn)
	}
	began := time.Now()
	// What a panic leaves: it ran here, and may be run again.
	end := OnceEnd{Name: o.name, Occurrence: occurrence, Result: OnceResult{Outcome: OnceFailed}}
	defer func() {
		end.Took = time.Since(began)
		hook(ctx, end)
	}()
	end.Result, end.Err = o.do(ctx, occurrence, fn)
	return end.Result, end.Err
}

func (o *Once) do(ctx context.Context, occurrence string, fn func(ctx context.Context, l *Lease) error) (OnceResult, error) {
	if o.keep <= 0 {
		return OnceResult{}, fmt.Errorf("fencelock: once %q: keep is %v; it must be positive", o.name, o.keep)
	}
	// An empty one would make all occurrences the same.
	if err := cmp.Or(checkText("its name", o.name), checkText("an occurrence", occurrence)); err != nil {
		return OnceResult{}, fmt.Errorf("fencelock: once %q: %w", o.name, err)
	}
	if !o.c.caps.Hold {
		return OnceResult{}, &Error{Op: "once", Name: o.name, Server: o.c.caps.Engine, Err: ErrUnsupported,
			Hint: "this store cannot keep the mark of an occurrence"}
	}
	m := o.c.Mutex(escape(o.name, "@")+"@"+occurrence, o.opts...).sole("an occurrence")
	m.h.outlast = true
	l, err := m.TryLock(ctx)
	if err != nil {
		return taken(err)
	}
	return o.perform(ctx, l, fn)
}

// taken returns the result for a busy occurrence.
func taken(err error) (OnceResult, error) {
	var busy *BusyError
	if !errors.As(err, &busy) {
		return OnceResult{}, err
	}
	res := OnceResult{Outcome: OnceRunningElsewhere}
	if len(busy.Holders) > 0 {
		res.Holder = &busy.Holders[0]
		if res.Holder.Kept {
			res.Outcome = OnceAlreadyRan
		}
	}
	return res, nil
}

// perform runs fn and leaves the mark if it succeeded.
func (o *Once) perform(ctx context.Context, l *Lease, fn func(context.Context, *Lease) error) (res OnceResult, err error) {
	bound, stop := l.WithContext(ctx)
	defer stop()
	keep := time.Duration(0)
	defer func() { // even when fn panics: then the occurrence may run again
		err = joined(err, l.unlocked(l.core.Unlock(ctx, keep)))
	}()
	if err := fn(bound, l); err != nil {
		return OnceResult{Outcome: OnceFailed}, err
	}
	keep = o.keep
	return OnceResult{Outcome: OnceRan}, nil
}

// escape makes sure that the separator after a name is the first there is: two
// different pairs of name and part must not be the same lock.
func escape(name, separator string) string {
	return strings.NewReplacer("%", "%25", separator, fmt.Sprintf("%%%X", separator)).Replace(name)
}
