// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/quorum"
)

// TestUnlockOvertakesAReclaim: a node loses its data, and a lock is unlocked while the call
// that puts it back there is in flight. The call arrives after the withdrawal, and the node
// has nothing of the lock then. reset is how many nodes lose their data: of two, the session
// is reopened as a whole.
func TestUnlockOvertakesAReclaim(t *testing.T) {
	for name, reset := range map[string][]int{"one node": {2}, "all nodes": {0, 1, 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { overtakes(t, reset) })
		})
	}
}

func overtakes(t *testing.T, reset []int) {
	r := newRig(t, 3, grace())
	nodes := r.nodes(nil)
	late, sent, let := locktest.NewTap(nodes[2].Store), make(chan struct{}, 10), make(chan struct{})
	late.OnReclaim = func(ctx context.Context, held []driver.Held, last bool, next locktest.ReclaimFunc) ([]bool, error) {
		if slices.ContainsFunc(held, func(h driver.Held) bool { return h.Claim.Name == "x" }) {
			sent <- struct{}{}
			<-let
		}
		return next(ctx, held, last)
	}
	nodes[2].Store = late
	s, err := quorum.New(nodes, &quorum.Options{Alarm: r.alarm, NodeTimeout: 8 * time.Second})
	must.OK(t, err)
	held := r.lock("c", r.client(s), "x")
	time.Sleep(time.Second)
	r.reset(reset...)
	<-sent
	time.Sleep(time.Second) // the other nodes answer
	if !held.Valid() {
		t.Fatal("the lease is lost, want it reclaimed by the other nodes")
	}
	must.OK(t, held.Unlock(t.Context()))
	close(let)
	time.Sleep(5 * time.Second)
	if n := r.taken("x"); n != 0 {
		t.Errorf("x was unlocked and is on %d nodes: %s", n, r.holders("x"))
	}
	if claims, owed := s.Kept(); claims != 0 || owed != 0 {
		t.Errorf("%d claims are kept and %d owed, want none", claims, owed)
	}
}

// TestReclaimCountsNodesKeptSinceTheReopening: a and b lose their data. When the session is
// reopened, c does not answer the keep-alive, and b does not answer the reclaim. c has the
// claim, but its session there ends before the lease does, so it does not count.
func TestReclaimCountsNodesKeptSinceTheReopening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		var reopened time.Time
		kept, err := r.reclaim(map[int]faultstore.Fault{
			1: faultstore.On(faultstore.Reclaim, faultstore.Name("x", faultstore.LoseRequest())),
			2: faultstore.On(faultstore.KeepAlive, faultstore.During(5*time.Second, time.Hour, faultstore.LoseRequest())),
		}, func(d driver.Session) {
			time.Sleep(3 * time.Second)
			if _, err := d.KeepAlive(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			r.reset(0, 1)
			time.Sleep(2 * time.Second)
			reopened = time.Now()
		})
		if err == nil && !kept {
			return
		}
		time.Sleep(time.Until(reopened.Add(9 * time.Second)))
		other := r.process(nil, nil)
		if l, err := other.Mutex("x").TryLock(t.Context()); err == nil {
			t.Errorf("another process got %v while the lease was believed for another second", l.Token())
		} else {
			t.Errorf("the claim was reclaimed with a node that was not kept alive: %v", err)
		}
	})
}

// TestReclaimNeedsNodesThatHadTheClaim: x is on a and b. a and c lose their data, and a does
// not answer the reclaim. c takes the claim, but never had it: another process may have been
// granted there before the data loss, and may win with that vote.
func TestReclaimNeedsNodesThatHadTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		kept, err := r.reclaim(map[int]faultstore.Fault{
			0: faultstore.On(faultstore.Reclaim, faultstore.Name("x", faultstore.LoseRequest())),
			2: faultstore.On(faultstore.Attempt, faultstore.Name("x", faultstore.Refuse())),
		}, func(driver.Session) { r.reset(0, 2) })
		if err != nil || kept {
			t.Errorf("reclaimed %v, %v, by one of the nodes that had it; %s", kept, err, r.holders("x"))
		}
	})
}
