// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// The errors of the machine. The API exports and documents them.
var (
	ErrBusy        = errors.New("fencelock: lock is busy")
	ErrGrace       = errors.New("fencelock: no new locks for now (grace period)")
	ErrLost        = errors.New("fencelock: lease lost")
	ErrClosed      = errors.New("fencelock: client closed")
	ErrUnavailable = errors.New("fencelock: store unavailable")
	ErrReleased    = errors.New("fencelock: lease released")
	ErrExpired     = errors.New("fencelock: lease reached its end")
	ErrUnrenewed   = errors.New("fencelock: session not renewed in time")
	ErrEnded       = errors.New("fencelock: session ended by the store")
	ErrBroken      = errors.New("fencelock: lease broken by an operator")
	ErrReset       = errors.New("fencelock: lease lost with the store's data")
	ErrUpgrade     = errors.New("fencelock: a read lock cannot become a write lock; unlock it first")
)

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

// lost wraps the reason of a loss: one that the API documents, and what it came from.
func lost(why ...error) error { return chain(ErrLost, why...) }

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
