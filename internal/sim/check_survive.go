// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"

	"github.com/fencelock/fencelock"
)

// checkSurvive: a client that no fault struck loses no lease but at the end it
// was fixed to, even if the store restarts, or loses its memory and has grace.
// And what it unlocks is confirmed.
func checkSurvive(v *view, bad complain) {
	if !v.sane() || v.wentBack {
		return
	}
	for _, a := range v.acqs {
		if !a.ok || !v.untouched(a.call.Client) {
			continue
		}
		if a.lost != unmet && errors.Is(a.cause, fencelock.ErrLost) && !errors.Is(a.cause, fencelock.ErrExpired) {
			bad([]*acq{a}, "#%d of %s was lost although nothing was in its way: %v", a.call.Acq, a.call.Name, a.cause)
			continue
		}
		if a.unlError != nil && !excused(a, v) {
			bad([]*acq{a}, "#%d of %s could not be unlocked although nothing was in its way: %v", a.call.Acq, a.call.Name, a.unlError)
		}
	}
}

// excused says whether an unlock may fail: the lease had come to its fixed end,
// its client was closed, or the store was losing its memory just then.
func excused(a *acq, v *view) bool {
	if errors.Is(a.unlError, fencelock.ErrExpired) || errors.Is(a.unlError, fencelock.ErrClosed) {
		return true
	}
	for _, loss := range v.losses {
		if loss.at <= a.unlocked.at && a.unlock.at <= loss.at+v.h.Schedule.T {
			return true
		}
	}
	return false
}
