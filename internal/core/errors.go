// SPDX-License-Identifier: Apache-2.0

package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// The errors of the machine. The API exports and documents them.
var (
	ErrBusy              = errors.New("fencelock: lock is busy")
	ErrGrace             = errors.New("fencelock: no new locks for now (grace period)")
	ErrLost              = errors.New("fencelock: lease lost")
	ErrClosed            = errors.New("fencelock: client closed")
	ErrUnavailable error = unavailable{}
	ErrReleased          = errors.New("fencelock: lease released")
	ErrUpgrade           = errors.New("fencelock: a read lock cannot become a write lock; unlock it first")
)

// unavailable is the type of ErrUnavailable. By the method driver.ErrUnavailable knows it.
type unavailable struct{}

// Error implements error.
func (unavailable) Error() string { return "fencelock: store unavailable" }

// Unavailable is for errors.Is.
func (unavailable) Unavailable() {}

// chained is several errors as one line. Only the first keeps the prefix of the
// package.
type chained struct {
	text string
	errs []error
}

// Error implements error.
func (c *chained) Error() string { return c.text }

// Unwrap returns the errors.
func (c *chained) Unwrap() []error { return c.errs }

// chain joins errors by a colon. What the text already ends with is not repeated.
func chain(first error, more ...error) error {
	c := &chained{text: first.Error(), errs: []error{first}}
	for _, err := range more {
		if text := Unprefixed(err); !strings.HasSuffix(c.text, text) {
			c.text += ": " + text
		}
		c.errs = append(c.errs, err)
	}
	return c
}

// Unprefixed is the text of an error inside another of this package.
func Unprefixed(err error) string { return strings.TrimPrefix(err.Error(), "fencelock: ") }

// Unavailable is ErrUnavailable with the errors that led to it, nil ones left
// out. The words of a driver's error that has them already are not repeated.
func Unavailable(causes ...error) error {
	var errs []error
	for _, err := range causes {
		if err != nil {
			errs = append(errs, err)
		}
	}
	c := chain(ErrUnavailable, errs...).(*chained)
	if words := driver.ErrUnavailable.Error(); len(errs) > 0 && strings.Contains(errs[0].Error(), words) {
		c.text = "fencelock: " + strings.Replace(Unprefixed(c), words+": ", "", 1)
	}
	return c
}

// Reason is why a lease was lost. The API has and documents the same values.
type Reason uint8

// The reasons.
const (
	Unrenewed Reason = iota + 1
	SessionEnded
	StoreReset
	ForceUnlocked
	MaxHoldReached
	Unmarked
)

// Loss is the loss of a lease: why, and what it came from, which may be nil.
type Loss struct {
	Reason Reason
	Err    error
}

// lost returns the error of a loss; from is what it came from.
func (c *Client) lost(why Reason, from ...error) error {
	return c.opts.Lost(Loss{Reason: why, Err: cmp.Or(from...)})
}

// CtxError keeps the context's own error and its cause, which may be the loss
// of an outer lease.
func CtxError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return chain(err, cause)
}

// Transient reports whether the same call may work a moment later.
func Transient(err error) bool {
	return errors.Is(err, driver.ErrUnknown) || errors.Is(err, driver.ErrUnavailable) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// InGrace is why a store that answers grants nothing.
func InGrace(left time.Duration) error {
	return fmt.Errorf("the store is new or was reset; no new locks for %v (grace period)", Brief(left))
}

// Brief rounds a time for people.
func Brief(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return d.Round(time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
