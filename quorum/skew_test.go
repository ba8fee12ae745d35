// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/faultstore"
)

// tokenTime is the moment that a token of a node with grace stands for.
func tokenTime(t driver.Token) time.Time { return time.UnixMicro(int64(t) / driver.TokenStep) }

// TestAWrongClockRaisesNoTokens: the node that answers first has a clock that is a
// year ahead. Its tokens do not become everybody's.
func TestAWrongClockRaisesNoTokens(t *testing.T) {
	for range 20 { // nodes answer in any order
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 3, grace())
			r.stores[0].StepClock(365 * 24 * time.Hour)
			r.stores[0].Forget() // it begins at its clock
			time.Sleep(11 * time.Second)
			slow := faultstore.Delay(2*time.Millisecond, 0)
			l := r.lock("c", r.process(map[int]faultstore.Fault{1: slow, 2: slow}, nil), "x")
			if ahead := time.Until(tokenTime(l.Token())); ahead > time.Hour {
				t.Errorf("the first lock has a token %v ahead", ahead)
			}
		})
	}
}

// TestTokensOfMarkersAreTaken: nodes whose counters differ agree at the first attempt,
// because their markers told how far they are.
func TestTokensOfMarkersAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		other := r.process(map[int]faultstore.Fault{2: away(0, time.Hour)}, nil)
		for range 10 { // the counters of a and b go ahead of c's
			if err := r.lock("other", other, "y").Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		d := r.open(map[int]faultstore.Fault{
			// A second attempt at x on any node would be a second round trip.
			0: second(), 1: second(), 2: second(),
		})
		if out, err := d.Attempt(t.Context(), claim(1)); err != nil || out.State != driver.Granted {
			t.Errorf("got %+v, %v; want it granted at the first attempt", out, err)
		}
	})
}

// second refuses all attempts at x but the first.
func second() faultstore.Fault {
	return faultstore.On(faultstore.Attempt, faultstore.Name("x", faultstore.After(1, faultstore.Refuse())))
}
