// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// OnceOutcome says what became of an occurrence.
type OnceOutcome uint8

const (
	// NotRun: it was not run here, and the error says why nothing is known of
	// it.
	NotRun OnceOutcome = iota
	// Failed: it ran here and returned an error; another may run it.
	Failed
	// Ran: it ran here, to the end.
	Ran
	// AlreadyRan: it has run before, here or elsewhere.
	AlreadyRan
	// RunningElsewhere: somebody runs it now.
	RunningElsewhere
)

// String returns the outcome as words.
func (o OnceOutcome) String() string {
	return [...]string{"not run", "failed", "ran", "already ran", "running elsewhere"}[o]
}

// OnceResult is the answer of Once.Do.
type OnceResult struct {
	Outcome OnceOutcome
	// Holder is who ran it or runs it, if it was not this call.
	Holder *Holder
}

// Once runs work once per named occurrence: a scheduled time, a batch number, a
// message id. A lock alone is not enough for that: a replica whose clock is late
// would find it free again. So the mark that it ran stays behind.
type Once struct {
	c    *Client
	name string
	keep time.Duration
	opts []Option
}

// Once returns a handle. keep is how long the mark of an occurrence stays: longer
// than any replica can be late. With the option MinHold of the same length an
// occurrence is not run again either if its process died in the middle or it
// failed: it then counts as run for that long. It does no I/O.
func (c *Client) Once(name string, keep time.Duration, opts ...Option) *Once {
	return &Once{c: c, name: name, keep: keep, opts: opts}
}

// Do runs fn unless the occurrence has run or is running; it does not wait. If
// fn fails the occurrence may be run again. It was not necessarily run only
// once if the error wraps ErrLost: the lease ended before fn did, and another
// process may have started it. The token fences that case.
//
// The occurrence is kept as the lock name@occurrence, with an @ in the name
// written as %40. Calling it for the same occurrence inside fn does not
// re-enter: that occurrence is running.
func (o *Once) Do(ctx context.Context, occurrence string, fn func(ctx context.Context, l *Lease) error) (OnceResult, error) {
	if o.keep <= 0 {
		return OnceResult{}, fmt.Errorf("fencelock: once %q: keep is %v, it must be positive", o.name, o.keep)
	}
	if !o.c.caps.Hold {
		return OnceResult{}, &Error{Op: "once", Name: o.name, Engine: o.c.caps.Engine, Err: ErrUnsupported,
			Hint: "this store cannot keep the mark of an occurrence"}
	}
	// Without the leases of ctx: running inside itself would be running twice.
	bare := context.WithValue(ctx, leaseKey{}, (*leaseNode)(nil))
	l, err := o.c.Mutex(escape(o.name, "@")+"@"+occurrence, o.opts...).TryLock(bare)
	if err != nil {
		return taken(err)
	}
	return o.perform(ctx, l, fn)
}

// taken says what a busy occurrence means.
func taken(err error) (OnceResult, error) {
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Grace {
		return OnceResult{}, err
	}
	res := OnceResult{Outcome: RunningElsewhere}
	if len(busy.Holders) > 0 {
		res.Holder = &busy.Holders[0]
		if res.Holder.Kept {
			res.Outcome = AlreadyRan
		}
	}
	return res, nil
}

// perform runs fn and leaves the mark if it succeeded.
func (o *Once) perform(ctx context.Context, l *Lease, fn func(context.Context, *Lease) error) (res OnceResult, err error) {
	bound, stop := l.bind(ctx)
	defer stop()
	keep := time.Duration(0)
	defer func() { // also when fn panics: then the occurrence may run again
		if uerr := l.unlock(ctx, keep); uerr != nil {
			err = errors.Join(err, uerr)
		}
	}()
	if err := fn(bound, l); err != nil {
		return OnceResult{Outcome: Failed}, err
	}
	keep = o.keep
	return OnceResult{Outcome: Ran}, nil
}

// escape makes sure that the separator after a name is the first there is: two
// different pairs of name and part must not be the same lock.
func escape(name, separator string) string {
	return strings.NewReplacer("%", "%25", separator, fmt.Sprintf("%%%X", separator)).Replace(name)
}

// kept returns the holder of a lock that is only kept, or nil.
func kept(st driver.Status) *Holder {
	if len(st.Holders) > 0 && st.Holders[0].Kept {
		return &st.Holders[0]
	}
	return nil
}
