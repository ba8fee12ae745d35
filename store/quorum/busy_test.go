// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/faultstore"
)

// TestBusyWithANodeDown: one of three nodes is down, and another answers late. A caller that
// tries a held lock, or any lock during the grace period, gets that reason and not the error
// that too few nodes answered.
func TestBusyWithANodeDown(t *testing.T) {
	faults := func() map[int]faultstore.Fault {
		return map[int]faultstore.Fault{1: faultstore.On(faultstore.Attempt, faultstore.Delay(20*time.Millisecond, 0)), 2: faultstore.Refuse()}
	}
	for _, resting := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 3, grace())
			r.lock("holder", r.process(nil, nil), "x")
			c := r.process(faults(), nil)
			if resting {
				r.reset()
			}
			for range 3 {
				want := fencelock.ErrBusy
				if resting {
					want = fencelock.ErrGrace
				}
				if _, err := c.Mutex("x").TryLock(t.Context()); !errors.Is(err, want) {
					t.Errorf("resting %t: got %v, want %v", resting, err, want)
				}
			}
		})
	}
}
