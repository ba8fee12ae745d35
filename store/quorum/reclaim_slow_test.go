// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/faultstore"
)

// TestReclaimWaitsForANodeThatItNeeds: x is on a and b. All nodes lose their data, and one of the calls
// that bring the session back is slow on a, longer than a round waits for a node that it can do
// without. c never had the claim, so a decides.
func TestReclaimWaitsForANodeThatItNeeds(t *testing.T) {
	const from = 5 * time.Second // when the nodes lose their data
	for _, slow := range []faultstore.Op{faultstore.KeepAlive, faultstore.Open, faultstore.Reclaim} {
		t.Run(string(slow), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 3, grace())
				kept, err := r.reclaim(map[int]faultstore.Fault{
					0: faultstore.On(slow, faultstore.During(from, time.Hour, faultstore.Delay(70*time.Millisecond, 70*time.Millisecond))),
					2: faultstore.On(faultstore.Attempt, faultstore.Name("x", faultstore.Refuse())),
				}, func(driver.Session) { time.Sleep(from); r.reset() })
				if err != nil || !kept {
					t.Errorf("reclaimed %v, %v; %s", kept, err, r.holders("x"))
				}
			})
		})
	}
}

// TestReclaimOfOneClaimDoesNotLoseTheOthers: x is on a and c, y on all nodes. c goes, and a and b lose their
// data: x cannot come back, and the wait for c must not take as long as the session of y has.
func TestReclaimOfOneClaimDoesNotLoseTheOthers(t *testing.T) {
	const from = 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		c := r.process(map[int]faultstore.Fault{
			1: faultstore.On(faultstore.Attempt, faultstore.Name("x", faultstore.Refuse())),
			2: away(from, time.Hour),
		}, &fencelock.Options{TTL: 600 * time.Millisecond}) // three times NodeTimeout
		y := r.lock("holder", c, "y")
		time.Sleep(100 * time.Millisecond)
		x := r.lock("holder", c, "x")
		time.Sleep(from - 100*time.Millisecond)
		r.reset(0, 1)
		time.Sleep(from)
		if !errors.Is(x.Err(), fencelock.LossStoreReset) || y.Err() != nil {
			t.Errorf("x: %v, y: %v; want x lost with the data, and y held", x.Err(), y.Err())
		}
	})
}
