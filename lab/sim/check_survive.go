// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock"
)

// checkSurvive: a client that no fault struck loses a lease only at its fixed end or to
// an operator, even if the store restarts, or loses its data and has a grace period.
// And what the client unlocks or downgrades is confirmed.
func checkSurvive(v *view, bad complain) {
	if !v.sane() || v.wentBack {
		return
	}
	for _, a := range v.acqs {
		if !a.ok || !v.untouched(a.call.Client) || v.displaced(a) {
			continue
		}
		if a.downErr != nil && !a.mayStay(v) {
			bad([]*acq{a}, "#%d of %s could not be downgraded although nothing was in its way: %v", a.call.Acq, a.call.Name, a.downErr)
			continue
		}
		if a.lost != unmet && errors.Is(a.cause, fencelock.ErrLost) && !errors.Is(a.cause, fencelock.LossMaxHold) {
			bad([]*acq{a}, "#%d of %s was lost although nothing was in its way: %v", a.call.Acq, a.call.Name, a.cause)
			continue
		}
		if a.unlError != nil && !excused(a, v) {
			bad([]*acq{a}, "#%d of %s could not be unlocked although nothing was in its way: %v", a.call.Acq, a.call.Name, a.unlError)
		}
	}
}

// displaced reports whether a may have been lost by what an operator did: to it, or
// to another before a data loss. The store may then have lost that a
// lease was broken, and give that one back instead.
func (v *view) displaced(a *acq) bool {
	return a.broken != unmet || v.dataLost && v.brokenBefore(a.call.Name, unmet)
}

// mayStay reports whether a downgrade may fail: the lease ended or was unlocked before
// the downgrade returned, or the context of the downgrade ended while the store was
// losing its data.
func (a *acq) mayStay(v *view) bool {
	return a.unlock.n < a.downed.n || a.lost.at <= a.downed.at ||
		v.losing(a.downing, a.downed) && (errors.Is(a.downErr, context.DeadlineExceeded) || errors.Is(a.downErr, context.Canceled))
}

// excused reports whether an unlock may fail: the lease had come to its fixed end,
// its client was closed, or the store was losing its data just then.
func excused(a *acq, v *view) bool {
	if errors.Is(a.unlError, fencelock.LossMaxHold) || errors.Is(a.unlError, fencelock.ErrClosed) {
		return true
	}
	return v.losing(a.unlock, a.unlocked)
}

// losing reports whether the store was losing its data between from and to.
func (v *view) losing(from, to stamp) bool {
	for _, loss := range v.losses {
		if loss.at <= to.at && from.at <= loss.at+v.h.Schedule.T {
			return true
		}
	}
	return false
}
