// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// OnceResult is what became of an occurrence. After a call without an error, Done means that the
// work is complete; otherwise another call runs it now.
type OnceResult struct {
	// Ran is set if this call ran the function, which may have failed.
	Ran bool
	// Done is set if the function ran to its end without an error: in this call if Ran is set,
	// or before, here or elsewhere.
	Done bool
	// Holder is who ran it or runs it, if it was not this call and the store names it.
	Holder *Holder
}

// String returns the result as words.
func (r OnceResult) String() string {
	switch {
	case r.Ran && r.Done:
		return "ran"
	case r.Ran:
		return "failed"
	case r.Done:
		return "already ran"
	case r.Holder != nil:
		return "running elsewhere"
	}
	return "not run"
}

// Once runs work once per named occurrence: a scheduled time, a batch number, a
// message id. Unlike [sync.Once] it does not wait for a run that is under way, runs again what
// failed, and works across processes. A lock alone is not enough for that: a replica whose clock is late
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
// long. Make the occurrence from the scheduled time, not from the clock. Once does no I/O; a bad
// value is reported by Do.
func (c *Client) Once(name string, keep time.Duration, opts ...LockOption) *Once {
	return &Once{c: c, name: name, keep: keep, opts: opts}
}

// Do runs fn unless the occurrence has run or is running; it does not wait for a run elsewhere. If
// fn fails, the occurrence may be run again.
//
// In a grace period of the store Do waits, as long as ctx lasts: a job that is due then must not be
// dropped. If ctx ends first, the error wraps [ErrGrace].
//
// An error that wraps [ErrLost] means that the occurrence may run a second time: the lease ended
// before fn did or, with Done set, the mark may be missing. fn must not unlock its lease.
//
// The occurrence is the lock name@occurrence, with an @ in the name as %40. Do for it inside fn
// does not re-enter.
func (o *Once) Do(ctx context.Context, occurrence string, fn func(ctx context.Context, l *Lease) error) (OnceResult, error) {
	hook := o.c.opts.Hooks.OnceEnd
	if hook == nil {
		return o.do(ctx, occurrence, fn)
	}
	began := time.Now()
	// What a panic leaves: it ran here, and may be run again.
	end := OnceEnd{Name: o.name, Occurrence: occurrence, Result: OnceResult{Ran: true}}
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
	var res OnceResult
	if len(busy.Holders) > 0 {
		res.Holder = &busy.Holders[0]
		res.Done = res.Holder.Kept
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
		return OnceResult{Ran: true}, err
	}
	keep = o.keep
	return OnceResult{Ran: true, Done: true}, nil
}

// escape makes sure that the separator after a name is the first there is: two
// different pairs of name and part must not be the same lock.
func escape(name, separator string) string {
	return strings.NewReplacer("%", "%25", separator, fmt.Sprintf("%%%X", separator)).Replace(name)
}
