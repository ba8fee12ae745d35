// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

// replicas are three processes, each of which reaches another node first: if they lock at one moment, each gets one vote. They
// lock a name before, so that their sessions are open.
func (r *rig) replicas() (all []*fencelock.Client) {
	r.t.Helper()
	for first := range r.stores {
		faults := map[int]faultstore.Fault{}
		for n := range r.stores {
			if n != first {
				faults[n] = faultstore.On(faultstore.Attempt, faultstore.Delay(2*time.Millisecond+time.Duration(first)*time.Microsecond, 0))
			}
		}
		c := r.process(faults, nil)
		must.OK(r.t, r.lock("replica "+nodeName(first), c, "own-"+nodeName(first)).Unlock(r.t.Context()))
		all = append(all, c)
	}
	time.Sleep(time.Until(r.began.Add(time.Second)))
	return all
}

// TestVotesThatLostAreNotKept: three replicas of a job try a lock with MinHold at one moment, and each gets one vote first. What they
// give back must not stay taken for the MinHold: either one of them gets the lock with it, or the lock is free.
func TestVotesThatLostAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		tried := make(chan *fencelock.Lease, 3)
		for _, c := range r.replicas() {
			go func() {
				lease, _ := c.Mutex("job", fencelock.MinHold(time.Hour)).TryLock(t.Context())
				tried <- lease
			}()
		}
		won := 0
		for range 3 {
			if lease := <-tried; lease != nil {
				won++
			}
		}
		time.Sleep(time.Second)
		if taken := r.taken("job"); won > 1 || won == 0 && taken > 0 {
			t.Errorf("%d of three have the lock, and it is taken on %d nodes: %s", won, taken, r.holders("job"))
		}
	})
}

// TestWaitersThatSplitGetTheLockOnceEachMinHold is the same with Lock: one of them gets the lock soon, and the next one when its MinHold is over.
func TestWaitersThatSplitGetTheLockOnceEachMinHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const minHold = 10 * time.Minute
		r := newRig(t, 3, grace())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		got := make(chan time.Time, 3)
		for _, c := range r.replicas() {
			go func() {
				lease, err := c.Mutex("job", fencelock.MinHold(minHold)).Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				at := time.Now()
				must.OK(t, lease.Unlock(ctx))
				got <- at
			}()
		}
		last := time.Now()
		if first := <-got; first.Sub(last) > 10*time.Second {
			t.Errorf("the first waited %v for a lock that was free", first.Sub(last))
		} else {
			last = first
		}
		for range 2 {
			next := <-got
			if waited := next.Sub(last); waited < minHold-time.Second || waited > minHold+30*time.Second {
				t.Errorf("the next one came %v after the one before, want %v", waited, minHold)
			}
			last = next
		}
	})
}
