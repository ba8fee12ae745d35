// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"errors"
	"fmt"
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

// graceful returns a store that has a grace period after a data loss.
func graceful() *memstore.Store {
	return memstore.New(&memstore.Options{Grace: true, MaxTTL: 2 * ttl})
}

// losses are ways to lose data. Each is called before the leases are taken and returns
// the function that loses the data.
var losses = map[string]func(m *memstore.Store) (lose func()){
	"everything": func(m *memstore.Store) func() { return m.Reset },
	"nothing":    func(m *memstore.Store) func() { return m.Restart },
	"the last seconds": func(m *memstore.Store) func() {
		old := m.Snapshot()
		return func() { m.Restore(old) }
	},
}

func TestLeasesSurviveADataLossInGrace(t *testing.T) {
	for name, prepare := range losses {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := graceful()
				c, other := newClient(t, m, nil), newClient(t, m, nil)
				first := lock(t, c, "first")
				lose := prepare(m)
				leases := []*fencelock.Lease{first}
				for i := range 2000 { // more than one batch
					leases = append(leases, lock(t, c, fmt.Sprint("n", i)))
				}
				lose()
				w := start(ctxb, other.Mutex("n7"))
				time.Sleep(10 * ttl)
				for _, l := range leases {
					if isDone(l.Context()) || !l.Valid() {
						t.Fatalf("%q was lost: %v", l.Name(), l.Err())
					}
					if st := status(t, m, l.Name()); len(st.Holders) != 1 || st.Holders[0].Token != l.Token() {
						t.Fatalf("%q with token %v: %+v", l.Name(), l.Token(), st)
					}
				}
				if w.over() {
					t.Fatalf("another client got the lock: %v", w.err)
				}
				unlock(t, leases[8])
				if l := w.wait(t, 0); l.Token() <= leases[8].Token() {
					t.Errorf("token %v after %v", l.Token(), leases[8].Token())
				}
			})
		})
	}
}

// What the store still knows needs no grace.
func TestRememberedLeasesSurviveARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, m, nil)
		var leases []*fencelock.Lease
		for i := range 2000 { // more than one batch
			leases = append(leases, lock(t, c, fmt.Sprint("n", i)))
		}
		m.Restart()
		time.Sleep(10 * ttl)
		for _, l := range leases {
			if st := status(t, m, l.Name()); !l.Valid() || len(st.Holders) != 1 {
				t.Fatalf("%q: %v, %+v", l.Name(), l.Err(), st)
			}
		}
	})
}

// A store that is restored to data from before an unlock has the lock again. Without a
// repeated unlock the lock would stay taken forever, because its session lives.
func TestUnlockThatTheStoreLostIsRepeated(t *testing.T) {
	for name, m := range map[string]*memstore.Store{"grace": graceful(), "no grace": newStore()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newClient(t, m, nil)
				holder := lock(t, c, "keeps its session alive")
				l := lock(t, c, "x")
				old := m.Snapshot()
				unlock(t, l)
				m.Restore(old)
				wantClaims(t, m, "x", 1, 0)
				time.Sleep(renewal)
				wantClaims(t, m, "x", 0, 0)
				wantHolds(t, m, holder)
			})
		})
	}
}

// A reclaim that fails in the middle must not count as done.
func TestInterruptedReclaimIsRepeated(t *testing.T) {
	for _, fault := range []string{
		`on(reclaim, nth(1, lose(request)))`, `on(reclaim, nth(1, lose(reply)))`, `on(reclaim, nth(2, refuse))`,
	} {
		t.Run(fault, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := graceful()
				c := newClient(t, bent(t, m, fault), nil)
				var leases []*fencelock.Lease
				for i := range 1000 {
					leases = append(leases, lock(t, c, fmt.Sprint("n", i)))
				}
				m.Reset()
				time.Sleep(10 * ttl)
				for _, l := range leases {
					st := status(t, m, l.Name())
					if held := len(st.Holders) == 1; held != l.Valid() {
						t.Fatalf("%q: valid is %v, held in the store is %v", l.Name(), l.Valid(), held)
					}
				}
				if !leases[0].Valid() {
					t.Errorf("lost although there was time: %v", leases[0].Err())
				}
			})
		})
	}
}

// What is unlocked while it is being reclaimed must not come back.
func TestUnlockDuringAReclaimIsFinal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := graceful()
		st := tap(m)
		reclaiming := make(chan struct{})
		st.OnReclaim = func(ctx context.Context, held []driver.Held, last bool, next locktest.ReclaimFunc) ([]bool, error) {
			close(reclaiming)
			time.Sleep(time.Second)
			return next(ctx, held, last)
		}
		c, other := newClient(t, st, nil), newClient(t, m, nil)
		l, holder := lock(t, c, "x"), lock(t, c, "keeps its session alive")
		m.Reset()
		<-reclaiming
		if err := l.Unlock(ctxb); errors.Is(err, fencelock.ErrLost) {
			t.Errorf("Unlock of a lease that was held: %v", err)
		}
		next := lock(t, other, "x")
		if next.Token() <= l.Token() {
			t.Errorf("token %v after %v", next.Token(), l.Token())
		}
		if !holder.Valid() {
			t.Errorf("the other lease was lost: %v", holder.Err())
		}
	})
}

func TestLeaseThatTheStoreLostIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, m, nil)
		early := lock(t, c, "early")
		survivor := m.Snapshot()
		l := lock(t, c, "x")
		held, waiter := l.Context(), start(ctxb, c.Mutex("x"))
		m.Restore(survivor)
		began := time.Now()
		if notified := ended(t, held).Sub(began); notified > renewal {
			t.Errorf("notified after %v; want it with the next renewal", notified)
		}
		wantIs(t, "cause", context.Cause(held), fencelock.ErrLost, fencelock.LossStoreReset)
		wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.ErrLost, fencelock.LossStoreReset)
		if next := waiter.wait(t, time.Second); next.Token() <= l.Token() {
			t.Errorf("token %v after %v", next.Token(), l.Token())
		}
		wantHolds(t, m, early) // the store still knew it
	})
}

func TestGrantThatCrossedALossIsAskedForAgain(t *testing.T) {
	for name, grace := range map[string]bool{"grace": true, "no grace": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := memstore.New(&memstore.Options{Grace: grace})
				st := tap(m)
				st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
					out, err := next(ctx, c)
					if c.Name == "x" && len(st.Sent(faultstore.Attempt)) == 2 {
						m.Reset()
						for len(st.Sent(faultstore.Reclaim)) == 0 {
							time.Sleep(100 * time.Millisecond) // ignores its context
						}
						time.Sleep(100 * time.Millisecond)
					}
					return out, err
				}
				c, other := newClient(t, st, nil), newClient(t, m, nil)
				lock(t, c, "keeps its session alive")
				lock(t, other, "other's session")
				ctx, cancel := context.WithTimeout(ctxb, 5*time.Minute)
				defer cancel()
				l, err := c.Mutex("x").Lock(ctx)
				must.OK(t, err)
				if len(st.Sent(faultstore.Reclaim)) == 0 {
					t.Fatal("nothing was reclaimed")
				}
				if st := status(t, m, "x"); len(st.Holders) != 1 || st.Holders[0].Token != l.Token() {
					t.Fatalf("holds token %v, the store says %+v", l.Token(), st)
				}
				wantHolds(t, m, l)
			})
		})
	}
}

func TestBrokenLeaseIsLostAndFenced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(m)
		a, b := newClient(t, st, nil), newClient(t, m, nil)
		l, untouched := lock(t, a, "x"), lock(t, a, "y")
		held := l.Context()
		w := start(ctxb, b.Mutex("x"))
		_, err := b.ForceUnlock(ctxb, "x", l.Token()+driver.TokenStep)
		wantIs(t, "Break with another token", err, fencelock.ErrNotHeld)
		fence, err := b.ForceUnlock(ctxb, "x", l.Token())
		must.OK(t, err)
		began := time.Now()
		next := w.wait(t, 0)
		if !(l.Token() < fence && fence < next.Token()) {
			t.Errorf("tokens %v, fence %v, next %v; want them to rise", l.Token(), fence, next.Token())
		}
		if notified := ended(t, held).Sub(began); notified > renewal {
			t.Errorf("notified after %v; want it with the next renewal", notified)
		}
		wantIs(t, "cause", context.Cause(held), fencelock.ErrLost, fencelock.LossForceUnlock)
		wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.LossForceUnlock)
		synctest.Wait()
		if n := len(st.Sent(faultstore.Withdraw)); n != 1 { // the store lists it until then
			t.Errorf("withdrawn %d times; want once", n)
		}
		wantHolds(t, m, next)
		wantHolds(t, m, untouched)
	})
}

// The reply to an attempt is lost in a restart of the store, which keeps the grant; the
// attempt is made again while the other leases are reclaimed. The end of the reclaim
// must not take the grant for one whose release the store lost.
func TestGrantFoundAgainIsNotDroppedByTheReclaim(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := graceful()
		st := tap(m)
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			out, err := next(ctx, c)
			if c.Name == "x" && len(st.Sent(faultstore.Attempt)) == 2 {
				m.Restart()
				return driver.Outcome{}, driver.ErrUnknown
			}
			return out, err
		}
		st.OnReclaim = func(ctx context.Context, held []driver.Held, last bool, next locktest.ReclaimFunc) ([]bool, error) {
			time.Sleep(2 * time.Second) // a slow request
			return next(ctx, held, last)
		}
		c, other := newClient(t, st, nil), newClient(t, m, nil)
		holder := lock(t, c, "keeps its session alive")
		l := lock(t, c, "x")
		if n := len(st.Sent(faultstore.Reclaim)); n != 1 {
			t.Fatalf("%d reclaims when the lease was had; want one under way", n)
		}
		time.Sleep(3 * time.Second)
		wantClaims(t, m, "x", 1, 0)
		time.Sleep(4 * ttl) // grace is over
		if _, err := other.Mutex("x").TryLock(ctxb); !errors.Is(err, fencelock.ErrBusy) {
			t.Errorf("TryLock of another client: %v; want ErrBusy", err)
		}
		wantHolds(t, m, l)
		wantHolds(t, m, holder)
	})
}

// A reclaim that arrives when its lease is unlocked, and the unlock had to be
// repeated, must not be granted: no client would ever release it.
func TestLateReclaimIsNotGranted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := graceful()
		st := bent(t, m, `any(on(reclaim, nth(1, delay(10s, 0s))), on(withdraw, nth(1, lose(request))))`)
		c := newClient(t, st, nil)
		holder, l := lock(t, c, "keeps its session alive"), lock(t, c, "x")
		m.Reset()
		time.Sleep(renewal + 500*time.Millisecond) // the reclaim is under way
		wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.ErrUnavailable)
		wantLate(t, st, func() { wantClaims(t, m, "x", 0, 0) })
		wantHolds(t, m, holder)
	})
}

// The store may lose the limit that permits were granted by together with the permits,
// or the limit may be that of another version of the program. The permits are valid
// anyway.
func TestPermitsSurviveADataLossWhateverTheirLimit(t *testing.T) {
	permit := func(t *testing.T, c *fencelock.Client, limit, weight int64) *fencelock.Lease {
		t.Helper()
		l, err := c.Semaphore("s", limit).TryAcquire(ctxb, weight)
		must.OK(t, err)
		return l
	}
	check := func(t *testing.T, m *memstore.Store, leases ...*fencelock.Lease) {
		t.Helper()
		m.Reset()
		time.Sleep(4 * ttl)
		for _, l := range leases {
			if err := l.Err(); err != nil {
				t.Errorf("a permit was lost: %v", err)
			}
		}
		wantClaims(t, m, "s", len(leases), 0)
	}
	t.Run("stored limit", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := graceful()
			a, b := newClient(t, m, nil), newClient(t, m, nil)
			must.OK(t, a.Semaphore("s", 2).SetLimit(ctxb, 4))
			check(t, m, permit(t, a, 2, 2), permit(t, b, 2, 2))
		})
	})
	t.Run("two versions", func(t *testing.T) {
		for _, firstToReclaim := range []string{"old", "new"} {
			bubble(t, func(t *testing.T) {
				m := graceful()
				st := tap(m)
				st.OnReclaim = func(ctx context.Context, held []driver.Held, last bool, next locktest.ReclaimFunc) ([]bool, error) {
					time.Sleep(callTimeout / 2)
					return next(ctx, held, last)
				}
				late, early := newClient(t, st, nil), newClient(t, m, nil)
				if firstToReclaim == "old" {
					late, early = early, late
				}
				check(t, m, permit(t, late, 1, 1), permit(t, early, 3, 2))
			})
		}
	})
}
