// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// peakVsMean is how many more calls there are in the fullest hundredth of a period than in a
// mean one.
func peakVsMean(calls []locktest.TapCall, from time.Time, length time.Duration) float64 {
	const bins = 100
	var count [bins]int
	total, peak := 0, 0
	for _, c := range calls {
		if i := int(c.At.Sub(from) * bins / length); i >= 0 && i < bins && !c.At.Before(from) {
			count[i]++
			total, peak = total+1, max(peak, count[i])
		}
	}
	if total == 0 {
		return 0
	}
	return float64(peak) * bins / float64(total)
}

// openTogether opens many sessions at the same moment, each for a lease.
func openTogether(t *testing.T, store driver.Store, n int) (leases []*fencelock.Lease) {
	for i := range n {
		leases = append(leases, lock(t, newClient(t, store, nil), fmt.Sprint("lock ", i)))
	}
	return leases
}

const together = 500

// TestSessionsOpenedTogetherDoNotRenewTogether: after a deployment that starts all processes at once, the
// keep-alives of the first two TTLs come evenly.
func TestSessionsOpenedTogetherDoNotRenewTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tp := tap(memstore.New(nil))
		began := time.Now()
		openTogether(t, tp, together)
		time.Sleep(2 * fencelock.DefaultTTL)
		if got := peakVsMean(tp.Sent(faultstore.KeepAlive), began, 2*fencelock.DefaultTTL); got > 3 {
			t.Errorf("the fullest hundredth of two TTLs has %.1f times as many keep-alives as a mean one", got)
		}
	})
}

// TestSessionsDoNotRenewTogetherAfterAnOutage: while the store does not answer, all sessions try again. When it
// answers, they succeed at about the same time; the renewals after that come evenly.
func TestSessionsDoNotRenewTogetherAfterAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tp := tap(memstore.New(nil))
		var down atomic.Bool
		tp.OnAlive = func(ctx context.Context, next locktest.AliveFunc) (driver.Renewal, error) {
			if down.Load() {
				return driver.Renewal{}, driver.ErrUnavailable
			}
			return next(ctx)
		}
		leases := openTogether(t, tp, together)
		time.Sleep(fencelock.DefaultTTL)
		synctest.Wait()
		down.Store(true)
		time.Sleep(fencelock.DefaultTTL / 2)
		down.Store(false)
		time.Sleep(fencelock.DefaultTTL / 10) // by then all have been answered
		from := time.Now()
		time.Sleep(2 * fencelock.DefaultTTL)
		if got := peakVsMean(tp.Sent(faultstore.KeepAlive), from, 2*fencelock.DefaultTTL); got > 3 {
			t.Errorf("the fullest hundredth of two TTLs has %.1f times as many keep-alives as a mean one", got)
		}
		for _, l := range leases {
			if !l.Valid() {
				t.Fatalf("a lease was lost: %v", l.Err())
			}
		}
	})
}

// TestSessionsDoNotRenewTogetherAfterAStall: a machine that stood still sends all renewals that are due at once. Those
// that follow come evenly.
func TestSessionsDoNotRenewTogetherAfterAStall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tp := tap(memstore.New(nil))
		var stalled atomic.Int64
		for i := range together / 2 { // each polls for a suspend
			c, err := newSuspendable(tp, nil, func() time.Duration { return time.Duration(stalled.Load()) })
			must.OK(t, err)
			closeLater(t, c)
			lock(t, c, fmt.Sprint("lock ", i))
		}
		time.Sleep(fencelock.DefaultTTL)
		stalled.Store(int64(renewal))
		time.Sleep(fencelock.DefaultTTL / 10) // by then it is noticed, and all have renewed
		from := time.Now()
		time.Sleep(2 * fencelock.DefaultTTL)
		if got := peakVsMean(tp.Sent(faultstore.KeepAlive), from, 2*fencelock.DefaultTTL); got > 3 {
			t.Errorf("the fullest hundredth of two TTLs has %.1f times as many keep-alives as a mean one", got)
		}
	})
}
