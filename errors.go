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

// The questions a caller has, as errors to ask with errors.Is. The error of
// the caller's own context is always preserved besides.
var (
	// ErrBusy is returned by TryLock when somebody else has the lock. The
	// error is a *BusyError that names the holder.
	ErrBusy = errors.New("fencelock: lock is busy")

	// ErrLost is the cause of a lease's context and the answer of Unlock when
	// the lease ended before it was unlocked. It wraps why.
	ErrLost = errors.New("fencelock: lease lost")

	// ErrClosed is returned when the client is closed.
	ErrClosed = errors.New("fencelock: client closed")

	// ErrUnavailable is returned when the store did not answer for as long as
	// Options.Patience, or, by TryLock and Unlock, did not answer at all.
	ErrUnavailable = errors.New("fencelock: store unavailable")

	// ErrUnsupported is returned for what this store cannot do.
	ErrUnsupported = fmt.Errorf("fencelock: not supported by this store: %w", errors.ErrUnsupported)

	// ErrReleased is the cause of a lease's context after Unlock.
	ErrReleased = errors.New("fencelock: lease released")

	// ErrExpired is why a lease was lost at the end of its FixedLease or
	// MaxHold.
	ErrExpired = errors.New("fencelock: lease reached its end")

	// ErrUnrenewed is why a lease was lost when the store did not confirm the
	// session before the trusted deadline.
	ErrUnrenewed = errors.New("fencelock: session not renewed in time")

	// ErrEnded is why a lease was lost when the store had ended the session: its
	// clock jumped ahead, or somebody removed it.
	ErrEnded = errors.New("fencelock: session ended by the store")

	// ErrBroken is why a lease was lost when an operator broke it.
	ErrBroken = errors.New("fencelock: lease broken by an operator")

	// ErrForgotten is why a lease was lost when the store lost its memory and
	// the lease could not be reclaimed.
	ErrForgotten = errors.New("fencelock: lease forgotten by the store")

	// ErrUpgrade is returned when a write lock is asked for under the context
	// of a read lock of the same name: two readers doing so would wait for each
	// other for ever. Unlock the read lock first.
	ErrUpgrade = errors.New("fencelock: a read lock cannot become a write lock")

	// ErrNotHeld is returned by Break when no holder has that token.
	ErrNotHeld = errors.New("fencelock: no holder has this token")
)

// Error says which operation failed on which lock, why, and, where a human can
// do something about it, what.
type Error struct {
	Op     string // "lock", "unlock", …
	Name   string // of the lock; empty if it is about none
	Engine string
	Err    error
	Hint   string
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("fencelock: " + e.Op)
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", e.Name)
	}
	fmt.Fprintf(&b, " (%s): %s", e.Engine, strings.ReplaceAll(e.Err.Error(), "fencelock: ", ""))
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// BusyError says who has the lock. errors.Is(err, ErrBusy) holds.
type BusyError struct {
	Name string
	// Holders are some of those who have it, if the store could tell.
	Holders []Holder
	// Grace is set if nobody may have it: the store lost its memory and grants
	// nothing until every earlier holder must have ended, which is after
	// RetryAfter.
	Grace      bool
	RetryAfter time.Duration
}

// Error implements error.
func (e *BusyError) Error() string {
	if e.Grace {
		return fmt.Sprintf("fencelock: %q: the store has a new memory and grants nothing for %v", e.Name, e.RetryAfter)
	}
	if len(e.Holders) == 0 {
		return fmt.Sprintf("fencelock: %q is busy", e.Name)
	}
	h := e.Holders[0]
	state := "held"
	if h.Kept {
		state = "kept taken"
	}
	msg := fmt.Sprintf("fencelock: %q is %s by %s for %v", e.Name, state, h.Record.Owner, h.Age.Round(time.Millisecond))
	if h.Record.Reason != "" {
		msg += fmt.Sprintf(" (%s)", h.Record.Reason)
	}
	if more := len(e.Holders) - 1; more > 0 {
		msg += fmt.Sprintf(" and %d more", more)
	}
	return msg
}

// Is reports whether target is ErrBusy.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// lost wraps why a lease was lost.
func lost(why error) error { return fmt.Errorf("%w: %w", ErrLost, why) }

// ctxError keeps the context's own error and its cause, which may be the loss
// of an outer lease.
func ctxError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// transient says whether the same call may work a moment later.
func transient(err error) bool {
	return errors.Is(err, driver.ErrUnknown) || errors.Is(err, driver.ErrUnavailable) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
