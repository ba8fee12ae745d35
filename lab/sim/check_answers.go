// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock"
)

// checkAnswers: a client that no fault struck, on a store that lost neither
// memory nor time, gets no other error than that its patience is over, that it
// is closed, or, for a try, that the lock is busy; and then another client was there.
// Whatever happens, a lease that is returned was not lost before, and the unlock
// of a lease that an operator broke does not confirm it.
func checkAnswers(v *view, bad complain) {
	for _, a := range v.acqs {
		if a.ok && a.call.Reentry == "" {
			v.checkReturned(a, bad)
			v.checkBroken(a, bad)
		}
	}
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
				bad([]*acq{a}, "#%d of %s got %v, but no client held it or waited for it", a.call.Acq, a.call.Name, a.err)
			}
		case errors.Is(a.err, context.DeadlineExceeded):
			if a.returned.at < a.called.at+a.call.D {
				bad([]*acq{a}, "#%d of %s gave up before its time: %v", a.call.Acq, a.call.Name, a.err)
			}
		case errors.Is(a.err, context.Canceled): // another goroutine made it give up
		case closed && errors.Is(a.err, fencelock.ErrClosed):
		case a.call.All && errors.Is(a.err, fencelock.LossForceUnlock) && v.anyBrokenBefore(a.returned): // while it waited for another
		default:
			bad([]*acq{a}, "#%d of %s failed although nothing was in its way: %v", a.call.Acq, a.call.Name, a.err)
		}
	}
}

func (v *view) checkReturned(a *acq, bad complain) {
	lost, is := v.leasesLost[leaseID{a.call.Client, a.call.Name, a.token}]
	if is && lost.at < a.returned.at {
		bad([]*acq{a}, "#%d of %s was returned at %v, and was lost at %v", a.call.Acq, a.call.Name, a.returned.at, lost.at)
	}
}

// checkBroken leaves alone what the store is not asked about: one lease of several
// on a grant, a lock that lingers, or a grant that the unlock handed to a waiter of the same client. The
// waiter may give up at that instant and never return the lease, so the handoff
// itself counts. The break and the unlock of one instant may come in either order.
func (v *view) checkBroken(a *acq, bad complain) {
	if !a.freed || a.call.Linger || a.broken.at >= a.unlock.at || a.shared(a.unlock) || len(v.losses) > 0 {
		return
	}
	if at, is := v.handoffs[leaseID{a.call.Client, a.call.Name, a.token + 1}]; is && a.unlock.n < at.n && at.n < a.unlocked.n {
		return
	}
	bad([]*acq{a}, "#%d of %s was broken at %v, and its unlock at %v was confirmed", a.call.Acq, a.call.Name, a.broken.at, a.unlock.at)
}

// crowded reports whether another client could have been in the way of a try. Those that
// a fault struck or killed may have left something in the store.
func (v *view) crowded(try *acq) bool {
	if isJob(try.call.Name) {
		return true
	}
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
		case errors.Is(a.cause, fencelock.LossMaxHold) && v.withdrawn(a) < try.called.at:
			// came to its fixed end and was withdrawn
		default:
			return true
		}
	}
	return false
}
