// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

// TestCloseLeavesNothing: a node opens the session only after it was closed on the
// others. It is closed there at once, and what waited for it to open is not sent.
func TestCloseLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		late := faultstore.On(faultstore.Open, faultstore.Delay(150*time.Millisecond, 0))
		c := r.process(map[int]faultstore.Fault{2: late}, nil)
		r.lock("c", c, "x")
		must.OK(t, c.Close(t.Context()))
		r.log("closed")
		time.Sleep(time.Second)
		for _, name := range []string{"x", ".quorum/nodes/0"} {
			if n := r.taken(name); n != 0 {
				t.Errorf("a second after Close %q is on %d nodes: %s", name, n, r.holders(name))
			}
		}
	})
}

// TestOneOpenForAll: many attempts that come while the session is being opened on a
// node that is away wait for that one Open, not for one each.
func TestOneOpenForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		s := r.store(map[int]faultstore.Fault{2: away(0, time.Hour)})
		c, err := fencelock.New(s, &fencelock.Options{TTL: 10 * time.Second})
		must.OK(t, err)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				l, err := c.Mutex(fmt.Sprint("x", i)).Lock(t.Context())
				if err == nil {
					err = l.Unlock(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		began := time.Now()
		_ = s.Close()
		if took := time.Since(began); took > time.Second {
			t.Errorf("calls went on for %v; a node may take 200 ms", took)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		_ = s.Close()
	})
}

// TestFailedOpensAreDropped: a session that could not be opened leaves nothing
// behind, neither in this process nor on the node that had opened it.
func TestFailedOpensAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		s := r.store(map[int]faultstore.Fault{0: away(0, time.Hour), 1: away(0, time.Hour)})
		c, err := fencelock.New(s, &fencelock.Options{TTL: 10 * time.Second})
		must.OK(t, err)
		for range 50 {
			if _, err := c.Mutex("x").TryLock(t.Context()); err == nil {
				t.Fatal("one of three nodes is enough")
			}
		}
		_ = s.Close()
		if n := s.Bodies(); n != 0 {
			t.Errorf("50 sessions could not be opened, and %d are remembered", n)
		}
		if n := r.taken(".quorum/nodes/0"); n != 0 {
			t.Errorf("the marker is on %d nodes: %s", n, r.holders(".quorum/nodes/0"))
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		_ = s.Close()
	})
}

// TestWaitLeavesNoGoroutine: a bubble must not end while a goroutine waits in it. The
// goroutines that made calls end with Wait, even if a session is left open.
func TestWaitLeavesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, 3, nil).store(nil)
		d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Second})
		must.OK(t, err)
		if out, err := d.Attempt(t.Context(), claim(1)); err != nil || out.State != driver.Granted {
			t.Fatalf("got %+v, %v", out, err)
		}
		_ = s.Close()
		if n := s.Waiting(); n != 0 {
			t.Errorf("%d goroutines wait for calls", n)
		}
	})
}
