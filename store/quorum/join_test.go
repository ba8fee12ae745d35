// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

// TestMissingNodesAreJoined: a lease that began on a bare majority gets the nodes it
// lacks when they are back, and outlives two of those it had; whether the counters of
// the nodes that join are below its token or, because others used them, above.
func TestMissingNodesAreJoined(t *testing.T) {
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("busy=%t", busy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { joined(t, busy) })
		})
	}
}

func joined(t *testing.T, busy bool) {
	r := newRig(t, 5, grace())
	// d and e are away at first, a and b later.
	holder := r.process(map[int]faultstore.Fault{
		3: away(0, 5*time.Second), 4: away(0, 5*time.Second),
		0: away(time.Minute, time.Hour), 1: away(time.Minute, time.Hour),
	}, nil)
	held := r.lock("holder", holder, "x")
	if on := r.on("x", held.Token()); on != "a b c" {
		t.Fatalf("it holds on %q, want a b c", on)
	}
	if busy {
		other := r.process(nil, nil)
		for i := range 10 {
			l := r.lock("other", other, fmt.Sprint("y", i))
			must.OK(t, l.Unlock(t.Context()))
		}
	}
	time.Sleep(30 * time.Second)
	r.log("d and e are back: %s", r.holders("x"))
	if n := r.taken("x"); n != 5 {
		t.Fatalf("%d nodes have the lease after they came back, want 5", n)
	}
	time.Sleep(2 * time.Minute)
	r.log("a and b are away: valid %v", held.Valid())
	if !held.Valid() {
		t.Fatalf("the lease was lost with three of five nodes well: %v", held.Err())
	}
	must.OK(t, held.Unlock(t.Context()))
	if next := r.lock("next", r.process(map[int]faultstore.Fault{}, nil), "x"); next.Token() <= held.Token() {
		t.Fatalf("token %v came after %v", next.Token(), held.Token())
	}
}

// TestReadersAndPermits: kinds of locks that share work over a quorum.
func TestReadersAndPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		a, b := r.process(nil, nil), r.process(nil, nil)
		ra, err := a.RWMutex("rw").RLock(t.Context())
		must.OK(t, err)
		rb, err := b.RWMutex("rw").RLock(t.Context())
		must.OK(t, err)
		if ra.Token() == rb.Token() {
			t.Errorf("two readers have the token %v", ra.Token())
		}
		if _, err := b.RWMutex("rw").TryLock(t.Context()); err == nil {
			t.Error("a writer got in beside two readers")
		}
		sem := func(c *fencelock.Client) *fencelock.Semaphore { return c.Semaphore("sem", 2) }
		for i, c := range []*fencelock.Client{a, b} {
			if _, err := sem(c).TryAcquire(t.Context(), 1); err != nil {
				t.Fatalf("permit %d: %v", i, err)
			}
		}
		if _, err := sem(a).TryAcquire(t.Context(), 1); err == nil {
			t.Error("three permits of two")
		}
	})
}

// TestGuaranteesNameTheClock: what is left to assume is said, and nothing more is
// claimed.
func TestGuaranteesNameTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 3, grace()).process(nil, nil).Guarantees()
		for _, want := range []string{
			"Token order needs no clock while no node loses its data.",
			"needs the clocks of the nodes within 10s of each other",
			"Two holders do not overlap in time while clocks drift less than 1 % and are not stepped.",
			"Processes acquire a lock in no particular order.",
		} {
			if !strings.Contains(g.String(), want) {
				t.Errorf("%q is not in:\n%s", want, g)
			}
		}
		if !g.SurvivesCrash || g.Fair {
			t.Errorf("got %+v", g)
		}
		if plain := newRig(t, 3, nil).process(nil, nil).Guarantees(); plain.SurvivesCrash || !strings.Contains(plain.String(), "token order is not promised") {
			t.Errorf("nodes without grace are praised:\n%s", plain)
		}
	})
}

// TestNodeThatIsBackJoinsBesideAWaiter: c was cut off for longer than a TTL and has ended the holder's session. Another process waits
// for the lock and sees c back first: it gets the vote of c, gives it back, and must not ask again at once for as long as it waits,
// or the holder never gets c, and loses its lease with the next node.
func TestNodeThatIsBackJoinsBesideAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		back := func(c time.Duration) map[int]faultstore.Fault {
			return map[int]faultstore.Fault{0: away(5*time.Minute, time.Hour), 2: away(time.Second, c)}
		}
		held := r.lock("holder", r.process(back(70*time.Second), nil), "x")
		time.Sleep(300 * time.Millisecond)
		waiter := r.process(back(time.Minute), nil)
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
		defer cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = waiter.Mutex("x").Lock(ctx)
		}()
		time.Sleep(time.Until(r.began.Add(6 * time.Minute)))
		if !held.Valid() {
			t.Errorf("two of three nodes are well, and the lease is lost: %v", held.Err())
		}
		cancel()
		<-ended
	})
}
