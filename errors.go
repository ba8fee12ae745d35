// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fencelock/fencelock/internal/core"
	"github.com/fencelock/fencelock/internal/enum"
)

// The reasons of failures, to be compared with errors.Is. If the caller's context
// ended, the error wraps the context's error too.
var (
	// ErrBusy is returned by TryLock when the lock is held. The error is a
	// *BusyError that names the holder.
	ErrBusy = core.ErrBusy

	// ErrGrace is returned when the store grants no new locks for now: it is new or was
	// reset, and its grace period lasts. It is not ErrBusy, because no holder is known. The
	// error is or wraps a *GraceError, which has the time that is left. If the caller's context ended
	// the wait, the error wraps that of the context too.
	ErrGrace = core.ErrGrace

	// ErrLost is wrapped by the cause of a lease's context and by the error of Unlock when
	// the lease ended before it was unlocked. A *LostError has the reason.
	ErrLost = core.ErrLost

	// ErrClosed is returned when the client is closed.
	ErrClosed = core.ErrClosed

	// ErrUnavailable is returned when the store did not answer for as long as
	// Options.StoreTimeout or until the caller's context ended, or, by TryLock and
	// Unlock, did not answer at all.
	ErrUnavailable = core.ErrUnavailable

	// ErrUnsupported is returned for what this store cannot do.
	ErrUnsupported error = unsupported{}

	// ErrReleased is the cause of a lease's context after Unlock. The error of an unlock
	// that the store did not confirm wraps it, too.
	ErrReleased = core.ErrReleased

	// ErrUpgrade is returned when a write lock is asked for under the context
	// of a read lock of the same name: two readers doing so would wait for each
	// other forever. Unlock the read lock first.
	ErrUpgrade = core.ErrUpgrade

	// ErrNotHeld is returned by ForceUnlock when no holder has that token.
	ErrNotHeld = errors.New("fencelock: no holder has this token")
)

// unsupported is the type of ErrUnsupported. It wraps errors.ErrUnsupported, whose text would
// say the same again.
type unsupported struct{}

// Error implements error.
func (unsupported) Error() string { return "fencelock: not supported by this store" }

// Unwrap returns errors.ErrUnsupported.
func (unsupported) Unwrap() error { return errors.ErrUnsupported }

// Error is a failed operation: which one, on which lock, why, and, as a hint, what to
// do about it.
type Error struct {
	// Op is the operation: "lock", "try lock", "unlock" and so on.
	Op string
	// Name is the name of the lock, empty if the operation is not about one lock.
	Name string
	// Server is the kind of server that keeps the lock, such as "redis".
	Server string
	// Err is the cause; errors.Is and errors.As see through it.
	Err error
	// Hint is what to do about it, or what happens next; it may be empty.
	Hint string
	// Waited and Holder are set when the caller's context ended the wait: how long
	// it was, and the holder in the way, if it is known.
	Waited time.Duration
	Holder *Holder
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("fencelock: " + e.Op)
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", e.Name)
	}
	fmt.Fprintf(&b, " (%s): ", e.Server)
	if e.Waited > 0 {
		fmt.Fprintf(&b, "waited %v", core.Brief(e.Waited))
		if h := e.Holder; h != nil {
			b.WriteString(", " + heldBy(h) + reasonOf(h))
		}
		b.WriteString(": ")
	}
	b.WriteString(core.Unprefixed(e.Err))
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// BusyError names the holders of a lock. errors.Is(err, [ErrBusy]) holds.
type BusyError struct {
	// Name is the name of the lock.
	Name string
	// Holders are some of the holders, if the store named them.
	Holders []Holder
}

// Error implements error.
func (e *BusyError) Error() string {
	if len(e.Holders) == 0 {
		return fmt.Sprintf("fencelock: %q is busy", e.Name)
	}
	h := &e.Holders[0]
	msg := fmt.Sprintf("fencelock: %q is %s", e.Name, heldBy(h))
	if h.Age > 0 { // the formats of other libraries do not have it
		msg += fmt.Sprintf(" for %v", h.Age.Round(time.Millisecond))
	}
	msg += reasonOf(h)
	if more := len(e.Holders) - 1; more > 0 {
		msg += fmt.Sprintf(" and %d more", more)
	}
	return msg
}

// Is reports whether target is [ErrBusy].
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// GraceError is the grace period of a store that is new or lost its data: it grants no new
// lock until every earlier lease must have ended. errors.Is(err, [ErrGrace]) holds.
type GraceError struct {
	// Name is the name of the lock.
	Name string
	// RetryAfter is how much of the grace period was left.
	RetryAfter time.Duration
}

// Error implements error.
func (e *GraceError) Error() string {
	return fmt.Sprintf("fencelock: %q: %v", e.Name, core.InGrace(e.RetryAfter))
}

// Is reports whether target is [ErrGrace].
func (e *GraceError) Is(target error) bool { return target == ErrGrace }

// LostError is the loss of a lease: it ended before it was unlocked.
// errors.Is(err, [ErrLost]) holds, and so does errors.Is(err, e.Reason).
type LostError struct {
	// Reason is why the lease was lost.
	Reason LossReason
	// Err is what it came from, such as the last answer of the store; it may be nil.
	Err error
}

// Error implements error.
func (e *LostError) Error() string {
	text := ErrLost.Error() + ": " + e.Reason.Error()
	if e.Err != nil {
		text += ": " + core.Unprefixed(e.Err)
	}
	return text
}

// Unwrap returns [ErrLost], the reason and what it came from.
func (e *LostError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrLost, e.Reason}
	}
	return []error{ErrLost, e.Reason, e.Err}
}

// LossReason is why a lease was lost. It is an error, to be compared with errors.Is.
type LossReason uint8

const (
	// LossUnrenewed: the store did not confirm the session before the trusted deadline.
	LossUnrenewed LossReason = LossReason(core.Unrenewed)
	// LossSessionEnded: the store had ended the session. Its clock jumped ahead, an operator
	// removed the session, or the store refused to renew it.
	LossSessionEnded LossReason = LossReason(core.SessionEnded)
	// LossStoreReset: the store lost its data, and the lease could not be reclaimed.
	LossStoreReset LossReason = LossReason(core.StoreReset)
	// LossForceUnlock: an operator took the lock away, with ForceUnlock.
	LossForceUnlock LossReason = LossReason(core.ForceUnlocked)
	// LossMaxHold: the lease reached its MaxHold.
	LossMaxHold LossReason = LossReason(core.MaxHoldReached)
	// LossUnmarked: an occurrence of Once has no mark, because its lease was unlocked or the
	// client was closed before the mark was left.
	LossUnmarked LossReason = LossReason(core.Unmarked)
)

// Error returns the reason in words.
func (r LossReason) Error() string {
	return enum.String("loss reason", r, "", "session not renewed in time", "session ended by the store", "the store lost its data",
		"taken away by an operator", "lease reached its end", "no mark was left")
}

// heldBy names a holder in an error.
func heldBy(h *Holder) string {
	if h.Kept {
		return "reserved by " + printable(h.Record.Owner)
	}
	return "held by " + printable(h.Record.Owner)
}

func reasonOf(h *Holder) string {
	if h.Record.Reason == "" {
		return ""
	}
	return " (" + printable(h.Record.Reason) + ")"
}

// printable is a text of another process in an error: it must not look like a
// second line of a log.
func printable(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	return strconv.Quote(text)
}

// failed is an error of the core as one of this package.
func (c *Client) failed(f core.Failure) error {
	return &Error{Op: f.Op, Name: f.Name, Server: c.caps.Engine, Err: f.Err, Hint: f.Hint, Waited: f.Waited, Holder: f.Holder}
}

func busy(b core.Busy) error {
	e := BusyError(b)
	return &e
}

func lost(l core.Loss) error { return &LostError{Reason: LossReason(l.Reason), Err: l.Err} }

func inGrace(g core.Grace) error {
	e := GraceError(g)
	return &e
}

// lockAllError is an error of LockAll: one prefix for all of it.
type lockAllError struct{ err error }

// Error implements error.
func (e *lockAllError) Error() string { return "fencelock: lock all: " + core.Unprefixed(e.err) }

// Unwrap returns the error of the lock.
func (e *lockAllError) Unwrap() error { return e.err }

// joined adds an error unless one of the two is about the other. The first is left out only
// for the loss of a lease: an error of the caller's function, such as that its
// context ended, is not that of the unlock, even if the unlock failed in the same way.
func joined(err, more error) error {
	if more == nil || errors.Is(err, more) {
		return err
	}
	if errors.Is(err, ErrLost) && errors.Is(more, err) {
		return more
	}
	var first, second *Error // two operations of one lock that failed for one reason
	if errors.As(err, &first) && errors.As(more, &second) && first.Name == second.Name && errors.Is(first.Err, second.Err) {
		return err
	}
	return errors.Join(err, more)
}

// joinedAll adds the errors of a set of leases, in their order. Those are about different
// locks or are ErrClosed, so each is compared with err only: joined would search all of
// them for each.
func joinedAll(err error, more []error) error {
	var found []error
	closed := false
	for _, e := range more {
		if joined(err, e) == err || e == ErrClosed && closed {
			continue
		}
		closed = closed || e == ErrClosed
		found = append(found, e)
	}
	if len(found) == 0 {
		return err
	}
	if err != nil {
		found = append([]error{err}, found...)
	}
	return errors.Join(found...)
}
