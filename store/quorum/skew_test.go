// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

// tokenTime is the moment that a token of a node with grace stands for.
func tokenTime(t driver.Token) time.Time { return time.UnixMicro(int64(t) / driver.TokenStep) }

// TestAWrongClockRaisesNoTokens: the node that answers first has a clock that is a
// year ahead. The token of a lock must not follow that clock.
func TestAWrongClockRaisesNoTokens(t *testing.T) {
	for range 20 { // nodes answer in any order
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 3, grace())
			r.stores[0].StepClock(365 * 24 * time.Hour)
			r.stores[0].Reset() // it begins at its clock
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
// because the tokens of their markers show how far each counter is.
func TestTokensOfMarkersAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		other := r.process(map[int]faultstore.Fault{2: away(0, time.Hour)}, nil)
		for range 10 { // the counters of a and b go ahead of c's
			must.OK(t, r.lock("other", other, "y").Unlock(t.Context()))
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

// TestOrderAfterALossNeedsClocks: a claim wins on a and b, b loses its data, and the next
// claim wins on b and c. Two of three nodes keep all their data, and still the order of the
// tokens needs clocks: b is the only node that both claims share. What is promised holds,
// and what is not promised fails; otherwise the documents would promise too little.
func TestOrderAfterALossNeedsClocks(t *testing.T) {
	for _, c := range []struct {
		ahead time.Duration // a's clock; the nodes' grace is 10 s
		rises bool
	}{{0, true}, {9 * time.Second, true}, {-9 * time.Second, true}, {time.Hour, false}} {
		t.Run(fmt.Sprint("ahead=", c.ahead), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 3, grace())
				r.stores[0].StepClock(c.ahead)
				r.stores[0].Reset() // it begins at its clock
				time.Sleep(21 * time.Second)
				first := r.process(map[int]faultstore.Fault{2: away(0, time.Hour)}, nil)
				held := r.lock("first", first, "x")
				must.OK(t, held.Unlock(t.Context()))
				must.OK(t, first.Close(t.Context()))
				r.log("b forgets")
				r.stores[1].Reset()
				time.Sleep(11 * time.Second)
				next := r.lock("second", r.process(map[int]faultstore.Fault{0: away(0, time.Hour)}, nil), "x")
				if rises := next.Token() > held.Token(); rises != c.rises {
					t.Errorf("token %v came after %v; want it higher: %t", next.Token(), held.Token(), c.rises)
				}
			})
		})
	}
}
