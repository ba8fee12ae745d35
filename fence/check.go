// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"errors"
	"fmt"
)

// The reasons of a guard's refusal, to be compared with errors.Is. Any other error of a
// guard is the resource's own, and after a write it leaves the outcome unknown: enter again
// with the same token and read.
var (
	// ErrStale: the resource has seen a newer token. Nothing was changed. The
	// error is a *StaleError. The lease is lost or soon will be: stop, and lock
	// again if the work must still be done.
	ErrStale = errors.New("fence: stale token")

	// ErrNoToken: there is no token to check. Nothing was changed.
	ErrNoToken = errors.New("fence: no token")

	// ErrWrongLock: the token belongs to another lock than the resource does.
	// Nothing was changed.
	ErrWrongLock = errors.New("fence: token of another lock")
)

// StaleError names the token that was refused, and the newer one.
type StaleError struct {
	// Given is the mark that was refused.
	Given Mark
	// Newer is the mark that was there before. Its token is zero if the
	// resource did not return it, its holder empty if that is not known.
	Newer Mark
}

// Error returns both marks, as far as they are known.
func (e *StaleError) Error() string {
	text := fmt.Sprintf("%v %d of lock %q", ErrStale, e.Given.Token, e.Given.Lock)
	if e.Newer.Token != 0 {
		text += fmt.Sprintf(": a newer token %d was seen", e.Newer.Token)
	}
	if e.Newer.Holder != "" {
		text += ", from " + e.Newer.Holder
	}
	return text
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Check is the rule: kept is the mark that the resource has seen last, zero if
// none, and given is the one that asks now. It returns nil if given may enter,
// and then the resource must keep it, in the same atomic step as the check and
// as whatever it lets in. Otherwise it returns an error that wraps ErrNoToken,
// ErrWrongLock or ErrStale, and the resource must change nothing.
func Check(kept, given Mark) error {
	if err := valid(given); err != nil {
		return err
	}
	if kept.Token == 0 {
		return nil
	}
	if kept.Lock != given.Lock {
		return fmt.Errorf("%w: the resource belongs to lock %q, and this is %v", ErrWrongLock, kept.Lock, given)
	}
	if given.Token < kept.Token {
		return &StaleError{Given: given, Newer: kept}
	}
	return nil
}
