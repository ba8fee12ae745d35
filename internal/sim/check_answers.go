// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock"
)

// checkAnswers: a client that no fault struck, on a store that lost neither
// memory nor time, gets no other error than that its patience is over, that it
// is closed, or, for a try, that the lock is busy; and then somebody was there.
func checkAnswers(v *view, bad complain) {
	for _, a := range v.acqs {
		if a.ok || a.returned == unmet || !v.untouched(a.call.Client) || len(v.losses) > 0 || !v.clockSane || v.wentBack {
			continue
		}
		_, closed := v.closed[a.call.Client]
		busy := errors.Is(a.err, fencelock.ErrBusy)
		switch {
		case busy && !a.call.Try:
			bad([]*acq{a}, "#%d of %s is no try and got: %v", a.call.Acq, a.call.Name, a.err)
		case busy:
			if !v.crowded(a) {
				bad([]*acq{a}, "#%d of %s got %v, but nobody had it or waited for it", a.call.Acq, a.call.Name, a.err)
			}
		case errors.Is(a.err, context.DeadlineExceeded):
			if a.returned.at < a.called.at+a.call.D {
				bad([]*acq{a}, "#%d of %s gave up before its time: %v", a.call.Acq, a.call.Name, a.err)
			}
		case errors.Is(a.err, context.Canceled): // somebody made it give up
		case closed && errors.Is(a.err, fencelock.ErrClosed):
		default:
			bad([]*acq{a}, "#%d of %s failed although nothing was in its way: %v", a.call.Acq, a.call.Name, a.err)
		}
	}
}

// crowded says whether anybody could have been in the way of a try. Those that
// a fault struck or killed may have left something in the store.
func (v *view) crowded(try *acq) bool {
	for _, a := range v.names[try.call.Name] {
		switch {
		case a == try || a.called.n > try.returned.n:
		case !v.untouched(a.call.Client):
			return true
		case a.returned == unmet || try.called.at <= a.returned.at+a.call.Keep*101/100:
			return true // here still, or kept taken by the store's clock
		case !a.ok:
			// gave up and has left nothing
		case a.freed && a.unlocked.n < try.called.n:
			// came and went
		case errors.Is(a.cause, fencelock.ErrExpired) && v.withdrawn(a) < try.called.at:
			// came to its fixed end and was withdrawn
		default:
			return true
		}
	}
	return false
}
