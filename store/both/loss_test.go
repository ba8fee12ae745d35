// SPDX-License-Identifier: Apache-2.0

package both_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/both"
	"github.com/fencelock/fencelock/store/memstore"
)

// sides makes a case run once for each of the two stores.
func sides(t *testing.T, f func(t *testing.T, mems [2]*memstore.Store, side int)) {
	for side, what := range []string{"old", "next"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f(t, [2]*memstore.Store{memstore.New(nil), memstore.New(nil)}, side)
			})
		})
	}
}

// lost waits until a lease has ended.
func lost(t *testing.T, l *fencelock.Lease) {
	t.Helper()
	select {
	case <-l.Context().Done():
	case <-time.After(5 * fencelock.DefaultTTL):
		t.Fatal("the lease has not ended")
	}
}

// keepsForAMargin fails unless a store keeps the lock for a margin, in which the holder stops, and no longer.
func keepsForAMargin(t *testing.T, store driver.Store) {
	t.Helper()
	const margin = fencelock.DefaultTTL / 10
	<-time.After(margin - time.Millisecond)
	if n, _ := holders(t, store); n != 1 {
		t.Errorf("%d holders in the other store within the margin, want 1", n)
	}
	<-time.After(2 * time.Millisecond)
	synctest.Wait()
}

func TestB6SessionThatOneStoreEndedIsEnded(t *testing.T) {
	sides(t, func(t *testing.T, mems [2]*memstore.Store, side int) {
		var l *fencelock.Lease
		var early atomic.Bool
		closing := func() { early.Store(l.Err() == nil) }
		c := client(t, made(t, &tap{Store: mems[0], log: &callLog{}, closing: closing}, &tap{Store: mems[1], log: &callLog{}, closing: closing}))
		l = lock(t, c)
		mems[side].StepClock(time.Hour)
		lost(t, l)
		if err := l.Err(); !errors.Is(err, fencelock.LossSessionEnded) {
			t.Errorf("got %v, want that the session ended", err)
		}
		keepsForAMargin(t, mems[1-side])
		if early.Load() {
			t.Error("the lock was given up in the other store before the holder was notified")
		}
		mustBeFree(t, mems[0], mems[1])
	})
}

func TestB6LockThatOneStoreBrokeIsLost(t *testing.T) {
	sides(t, func(t *testing.T, mems [2]*memstore.Store, side int) {
		l := lock(t, client(t, made(t, mems[0], mems[1])))
		breakOnly(t, mems[side])
		lost(t, l)
		if err := l.Err(); !errors.Is(err, fencelock.LossForceUnlock) {
			t.Errorf("got %v, want that it was broken", err)
		}
		synctest.Wait()
		mustBeFree(t, mems[0], mems[1])
	})
}

func TestB6LockThatOneStoreLostIsLost(t *testing.T) {
	sides(t, func(t *testing.T, mems [2]*memstore.Store, side int) {
		l := lock(t, client(t, made(t, mems[0], mems[1])))
		mems[side].Reset()
		lost(t, l)
		if err := l.Err(); !errors.Is(err, fencelock.LossStoreReset) {
			t.Errorf("got %v, want that the store lost its data", err)
		}
		keepsForAMargin(t, mems[1-side])
		mustBeFree(t, mems[0], mems[1])
	})
}

func TestB6LockSurvivesADataLossOfOneStoreWithGrace(t *testing.T) {
	for side, what := range []string{"old", "next"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				grace := &memstore.Options{Grace: true}
				mems := [2]*memstore.Store{memstore.New(grace), memstore.New(grace)}
				l := lock(t, client(t, made(t, mems[0], mems[1])))
				token := l.Token()
				mems[side].Reset()
				<-time.After(time.Minute)
				if !l.Valid() || l.Token() != token {
					t.Errorf("the lease ended or changed its token: %v", l.Err())
				}
				for _, p := range []phase{phaseOld, phaseBoth, phaseNext} {
					if _, err := client(t, p.store(t, mems[0], mems[1])).Mutex(name).TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
						t.Errorf("phase %d: got %v, want busy", p, err)
					}
				}
				unlock(t, l)
				mustBeFree(t, mems[0], mems[1])
			})
		})
	}
}

// TestB7LeaseEndsUnlessBothStoresAnswer also shows that the holder is notified while both stores
// still have the lock.
func TestB7LeaseEndsUnlessBothStoresAnswer(t *testing.T) {
	sides(t, func(t *testing.T, mems [2]*memstore.Store, side int) {
		stores := [2]driver.Store{mems[0], mems[1]}
		stores[side] = faulty(t, mems[side], "on(keepalive, lose(request))")
		l := lock(t, client(t, made(t, stores[0], stores[1])))
		began := time.Now()
		lost(t, l)
		if took := time.Since(began); took > fencelock.DefaultTTL {
			t.Errorf("the holder was notified after %v, later than a TTL", took)
		}
		for i, m := range mems {
			if n, _ := holders(t, m); n != 1 {
				t.Errorf("store %d gave the lock away before the holder was notified", i)
			}
		}
		<-time.After(2 * fencelock.DefaultTTL)
		mustBeFree(t, mems[0], mems[1])
	})
}

func TestB7ShorterTTLCounts(t *testing.T) {
	sides(t, func(t *testing.T, mems [2]*memstore.Store, side int) {
		stores := [2]driver.Store{mems[0], mems[1]}
		stores[side] = &tap{Store: mems[side], log: &callLog{}, renewal: func(r *driver.Renewal) { r.TTL /= 3 }}
		s := made(t, stores[0], stores[1])
		drv, opened, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard(name), ID: driver.NewSessionID(), TTL: 30 * time.Second})
		must.OK(t, err)
		kept, err := drv.KeepAlive(t.Context())
		if err != nil || opened.TTL != 10*time.Second || kept.TTL != 10*time.Second {
			t.Errorf("got TTLs %v and %v, %v; want those of the store with the shorter one", opened.TTL, kept.TTL, err)
		}
	})
}

func TestB8UnconfirmedReleaseIsRepeated(t *testing.T) {
	sides(t, func(t *testing.T, mems [2]*memstore.Store, side int) {
		stores := [2]driver.Store{mems[0], mems[1]}
		stores[side] = faulty(t, mems[side], "on(withdraw, for(4s, lose(request)))")
		l := lock(t, client(t, made(t, stores[0], stores[1])))
		if err := l.Unlock(t.Context()); !errors.Is(err, fencelock.ErrReleased) {
			t.Errorf("got %v, want that it is not confirmed", err)
		}
		mustBeFree(t, mems[1-side]) // a silent store does not keep the lock of the other
		<-time.After(fencelock.DefaultTTL)
		mustBeFree(t, mems[0], mems[1])
	})
}

func TestB8RepeatedReleaseFindsWhatTheFirstFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		drv := session(t, made(t, faulty(t, old, "on(withdraw, nth(1, lose(request)))"), next))
		mustBe(t, drv, claim(1), driver.Granted)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := driver.Withdrawal{Seq: 1, Name: name}
		if _, err := drv.Withdraw(ctx, w); !errors.Is(err, driver.ErrUnknown) {
			t.Fatalf("got %v, want an unknown outcome", err)
		}
		if found, err := drv.Withdraw(t.Context(), w); err != nil || found != driver.WasGranted {
			t.Errorf("the second withdrawal found it %v, %v; want granted", found, err)
		}
	})
}

func TestB6MarkIsLeftInBothAfterADataLossOfOne(t *testing.T) {
	for side, what := range []string{"old", "next"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				grace := &memstore.Options{Grace: true}
				mems := [2]*memstore.Store{memstore.New(grace), memstore.New(grace)}
				c := client(t, made(t, mems[0], mems[1]))
				run, err := c.Once("nightly", time.Hour).Do(t.Context(), "2026-11-16", func(context.Context, *fencelock.Lease) error {
					mems[side].Reset()
					return nil
				})
				if err != nil {
					t.Fatal(run, err)
				}
				for i, m := range mems {
					page, err := m.List(t.Context(), driver.ListQuery{Max: 10})
					if err != nil || len(page.Locks) != 1 || len(page.Locks[0].Holders) != 1 || !page.Locks[0].Holders[0].Kept {
						t.Errorf("store %d has %+v, %v; want the mark", i, page.Locks, err)
					}
				}
			})
		})
	}
}

func TestStoreThatIsDownLeavesNothingInTheOther(t *testing.T) {
	for _, fault := range []string{"lose(request)", "refuse", "fail", "on(attempt, refuse)", "on(attempt, fail)", "on(attempt, lose(reply))"} {
		t.Run(fault, func(t *testing.T) {
			sides(t, func(t *testing.T, mems [2]*memstore.Store, side int) {
				stores := [2]driver.Store{mems[0], mems[1]}
				stores[side] = faulty(t, mems[side], fault)
				c := client(t, made(t, stores[0], stores[1]))
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if _, err := c.Mutex(name).Lock(ctx); err == nil {
					t.Fatal("the lock was acquired")
				}
				if _, err := c.Mutex(name).TryLock(ctx); err == nil {
					t.Fatal("the lock was acquired by a try")
				}
				if err := c.Close(context.Background()); err != nil && !errors.Is(err, fencelock.ErrUnavailable) && fault != "fail" {
					t.Error(err)
				}
				<-time.After(fencelock.DefaultTTL)
				mustBeFree(t, mems[0], mems[1])
			})
		})
	}
}

func TestInspectShowsWhatIsInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := memstore.New(nil), memstore.New(nil)
		store := made(t, old, next)
		for _, p := range []phase{phaseOld, phaseBoth, phaseNext} {
			l := lock(t, client(t, p.store(t, old, next)))
			st, err := store.Inspect(t.Context(), name)
			if err != nil || len(st.Holders) != 1 || st.Holders[0].Token != l.Token() {
				t.Errorf("phase %d: got %+v, %v; want one holder with token %v", p, st.Holders, err, l.Token())
			}
			page, err := store.List(t.Context(), driver.ListQuery{Max: 10})
			for len(page.Locks) == 0 && page.Next != "" && err == nil {
				page, err = store.List(t.Context(), driver.ListQuery{Max: 10, Cursor: page.Next})
			}
			if err != nil || len(page.Locks) != 1 || len(page.Locks[0].Holders) != 1 {
				t.Errorf("phase %d: listed %+v, %v; want the lock", p, page, err)
			}
			fence, err := store.Break(t.Context(), name, l.Token())
			if err != nil || fence <= l.Token() {
				t.Errorf("phase %d: Break returned %v, %v", p, fence, err)
			}
			mustBeFree(t, old, next)
			lost(t, l)
		}
	})
}

func TestCheckNamesTheStore(t *testing.T) {
	finding := driver.Finding{Severity: driver.Warning, Code: "eviction", Reason: "it evicts"}
	s := made(t, checked{memstore.New(nil), []driver.Finding{finding}, nil}, checked{memstore.New(nil), nil, errors.New("no route")})
	found, err := s.Check(t.Context())
	var text []string
	for _, f := range found {
		text = append(text, f.String())
	}
	want := "old: warning: it evicts (eviction)\nnew: danger: it does not answer, so no lock can be acquired or renewed: no route (unreachable); start it"
	if got := strings.Join(text, "\n"); err != nil || got != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
	}
}

// checked is a store that can be checked.
type checked struct {
	driver.Store
	found []driver.Finding
	err   error
}

func (c checked) Check(context.Context) ([]driver.Finding, error) { return c.found, c.err }

var _ driver.Checker = (*both.Store)(nil)
