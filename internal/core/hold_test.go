// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// fixedFor is how long after its grant the holder of a lease for d is notified: the
// drift and a margin before the store ends the lease.
func fixedFor(d time.Duration) time.Duration { return d*99/100 - min(ttl/10, d/10) }

func TestMaxHoldEnds(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 10 * time.Minute} {
		t.Run(d.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				began := time.Now() // the store's clock is as fast as the drift allows
				m := memstore.New(&memstore.Options{Now: func() time.Time {
					return began.Add(time.Since(began) * 100 / 99)
				}})
				slow := bent(t, m, `on(attempt, delay(100ms, 200ms))`)
				a, b := newClient(t, slow, nil), newClient(t, m, nil)
				l := lock(t, a, "x", fencelock.MaxHold(d))
				held := l.Context()
				w := start(ctxb, b.Mutex("x"))
				next := w.wait(t, 2*d)
				if held.Err() == nil || l.Valid() {
					t.Fatal("the next client holds the lock and the first was not notified")
				}
				if waited := w.at.Sub(began); waited < d*98/100 || waited > d*11/10+ttl/10+time.Second {
					t.Errorf("the next got it after %v; the lease was for %v", waited, d)
				}
				wantIs(t, "cause", context.Cause(held), fencelock.ErrLost, fencelock.LossMaxHold)
				wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.ErrLost, fencelock.LossMaxHold)
				wantHolds(t, m, next)
			})
		})
	}
	t.Run("after a wait", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := newStore()
			a, b := newClient(t, m, nil), newClient(t, m, nil)
			l := lock(t, a, "x")
			w := start(ctxb, b.Mutex("x", fencelock.MaxHold(5*time.Second)))
			behind := start(ctxb, newClient(t, m, nil).Mutex("x"))
			time.Sleep(time.Minute)
			granted := time.Now()
			unlock(t, l)
			fixed := w.wait(t, 0)
			wantNear(t, "deadline", fixed.Deadline(), granted.Add(fixedFor(5*time.Second)))
			unlock(t, fixed) // before its end
			unlock(t, behind.wait(t, 0))
		})
	})
	t.Run("in the same client", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c := newClient(t, newStore(), nil)
			l := lock(t, c, "x", fencelock.MaxHold(time.Second))
			w := start(ctxb, c.Mutex("x"))
			next := w.wait(t, 2*time.Second)
			if l.Valid() || next.Token() <= l.Token() {
				t.Errorf("token %v while %v is valid", next.Token(), l.Token())
			}
		})
	})
}

// A grant that the client learns of when its fixed time is over does not count.
func TestMaxHoldThatComesTooLateIsAskedForAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, bent(t, m, `on(attempt, nth(1, delay(0s, 2s)))`), nil)
		l := lock(t, c, "x", fencelock.MaxHold(time.Second))
		if !l.Valid() {
			t.Error("a lease that has ended already")
		}
		unlock(t, l)
		wantClaims(t, m, "x", 0, 0)
	})
}

func TestMaxHoldEndsALeaseThatIsNotUnlocked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, m, nil)
		const most = 5 * time.Minute
		began := time.Now()
		dropped, other := lock(t, c, "x", fencelock.MaxHold(most)), lock(t, c, "y")
		held := dropped.Context()
		time.Sleep(most * 98 / 100)
		if !dropped.Valid() || isDone(held) {
			t.Fatalf("ended early: %v", dropped.Err())
		}
		wantNear(t, "end", ended(t, held), began.Add(fixedFor(most)))
		wantIs(t, "cause", context.Cause(held), fencelock.ErrLost, fencelock.LossMaxHold)
		unlock(t, lock(t, c, "x"))
		if !other.Valid() {
			t.Errorf("another lease of the session ended too: %v", other.Err())
		}
		// Many ends, in any order.
		for i := range 100 {
			d := time.Duration((i*37)%100+1) * time.Second
			l := lock(t, c, "many", fencelock.MaxHold(d))
			wantNear(t, "end of one of many", ended(t, l.Context()), time.Now())
			if l.Valid() {
				t.Fatal("valid after its end")
			}
		}
	})
}

// Ends are kept in a heap: each lease ends at its own time, unlocked ones not at
// all.
func TestManyMaxHoldsEndInTheirOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		began := time.Now()
		leases := map[time.Duration]*fencelock.Lease{}
		for i := range 100 {
			d := time.Duration((i*37)%100+1) * time.Second
			leases[d] = lock(t, c, d.String(), fencelock.MaxHold(d))
		}
		for i := 1; i <= 100; i += 3 {
			unlock(t, leases[time.Duration(i)*time.Second])
		}
		for i := 1; i <= 100; i++ {
			d := time.Duration(i) * time.Second
			l := leases[d]
			if i%3 == 1 {
				wantIs(t, "an unlocked one", l.Err(), fencelock.ErrReleased)
				continue
			}
			wantNear(t, "end", ended(t, l.Context()), began.Add(fixedFor(d)))
		}
	})
}

func TestMinHoldOutlivesTheUnlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		a, b := newClient(t, m, nil), newClient(t, m, nil)
		const least = time.Minute
		began := time.Now()
		l := lock(t, a, "x", fencelock.MinHold(least))
		local := start(ctxb, a.Mutex("x", fencelock.MinHold(least)))
		time.Sleep(time.Second)
		unlock(t, l)
		wantIs(t, "Err", l.Err(), fencelock.ErrReleased)
		for _, c := range []*fencelock.Client{a, b} {
			_, err := c.Mutex("x").TryLock(ctxb)
			wantIs(t, "TryLock", err, fencelock.ErrBusy)
		}
		next := local.wait(t, 2*least)
		if waited := local.at.Sub(began); waited < least || waited > least+ttl/4 {
			t.Errorf("the next got it after %v; want %v", waited, least)
		}
		time.Sleep(2 * least)
		unlock(t, next) // long after its least time: free at once
		unlock(t, lock(t, b, "x"))
	})
	t.Run("death", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := newStore()
			a, b := newClient(t, bent(t, m, `during(1s, 5m, lose(request))`), nil), newClient(t, m, nil)
			began := time.Now()
			ended(t, lock(t, a, "x", fencelock.MinHold(2*ttl)).Context())
			lock(t, b, "x")
			if waited := time.Since(began); waited < 2*ttl {
				t.Errorf("free after %v; want %v", waited, 2*ttl)
			}
		})
	})
}

// The holder has the margin, or a tenth of a short lease, to stop before another client
// can hold the lock.
func TestHolderOfAMaxHoldIsNotifiedAMarginBefore(t *testing.T) {
	for _, d := range []time.Duration{time.Second, time.Minute} {
		t.Run(d.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				began := time.Now() // the store's clock is as fast as the drift allows
				m := memstore.New(&memstore.Options{Now: func() time.Time {
					return began.Add(time.Since(began) * 100 / 99)
				}})
				c, other := newClient(t, m, nil), newClient(t, m, nil)
				held := lock(t, c, "x", fencelock.MaxHold(d)).Context()
				w := start(ctxb, other.Mutex("x"))
				notified := ended(t, held)
				w.wait(t, d)
				if margin := w.at.Sub(notified); margin < min(ttl/10, d/10)-time.Millisecond {
					t.Errorf("notified %v before the next client got the lock; want %v", margin, min(ttl/10, d/10))
				}
			})
		})
	}
}

// It would be granted, spent and asked for again without end.
func TestMaxHoldShorterThanTheRoundTripIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(bent(t, m, `on(attempt, delay(0s, 5ms))`))
		c := newClient(t, st, nil)
		mu := c.Mutex("x", fencelock.MaxHold(4*time.Millisecond))
		ctx, cancel := context.WithTimeout(ctxb, time.Minute)
		defer cancel()
		_, err := mu.Lock(ctx)
		if err == nil || !strings.Contains(err.Error(), "MaxHold") {
			t.Errorf("Lock: %v; want an error that says which option is too short", err)
		}
		if n := len(st.Sent(faultstore.Attempt)); n > 10 {
			t.Errorf("%d attempts", n)
		}
		if _, err := mu.TryLock(ctxb); err == nil || !strings.Contains(err.Error(), "MaxHold") {
			t.Errorf("TryLock: %v; want an error that says which option is too short", err)
		}
		time.Sleep(time.Second)
		wantClaims(t, m, "x", 0, 0)
	})
}

// No process holds a lock that is only kept taken, so none reclaims it.
func TestMinHoldOverADataLoss(t *testing.T) {
	for name, c := range map[string]struct {
		held bool // while the data is lost
		loss func(*memstore.Store)
		free bool
	}{
		"data kept, held":     {true, (*memstore.Store).Restart, false},
		"data kept, unlocked": {false, (*memstore.Store).Restart, false},
		"data lost, held":     {true, (*memstore.Store).Reset, false},
		"data lost, unlocked": {false, (*memstore.Store).Reset, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := memstore.New(&memstore.Options{Grace: true})
				client := newClient(t, store, nil)
				l := lock(t, client, "x", fencelock.MinHold(time.Hour))
				if !c.held {
					unlock(t, l)
				}
				c.loss(store)
				time.Sleep(memstore.DefaultMaxTTL + ttl)
				if c.held {
					unlock(t, l)
				}
				if _, err := client.Mutex("x").TryLock(ctxb); (err == nil) != c.free {
					t.Errorf("got %v, want it free: %v", err, c.free)
				}
			})
		})
	}
}
