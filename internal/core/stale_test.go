// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// staleLeases are ways to have a lease that is over while another holds.
var staleLeases = map[string]func(t *testing.T, m *memstore.Store) (stale, next *fencelock.Lease){
	"lost, then another holds": func(t *testing.T, m *memstore.Store) (stale, next *fencelock.Lease) {
		a, b := newClient(t, bent(t, m, `during(1s, 1m, lose(request))`), nil), newClient(t, m, nil)
		return lock(t, a, "x"), lock(t, b, "x")
	},
	"lost, then held again by the same client": func(t *testing.T, m *memstore.Store) (stale, next *fencelock.Lease) {
		c := newClient(t, m, nil)
		stale = lock(t, c, "x")
		m.StepClock(ttl) // the store ends the session
		ended(t, stale.Context())
		return stale, lock(t, c, "x")
	},
	"unlocked, then held again in the same session": func(t *testing.T, m *memstore.Store) (stale, next *fencelock.Lease) {
		c := newClient(t, m, nil)
		stale = lock(t, c, "x")
		unlock(t, stale)
		return stale, lock(t, c, "x")
	},
	"passed on": func(t *testing.T, m *memstore.Store) (stale, next *fencelock.Lease) {
		c := newClient(t, m, nil)
		stale = lock(t, c, "x")
		w := start(ctxb, c.Mutex("x"))
		unlock(t, stale)
		return stale, w.wait(t, 0)
	},
	"broken, then held again in the same session": func(t *testing.T, m *memstore.Store) (stale, next *fencelock.Lease) {
		c := newClient(t, m, nil)
		stale = lock(t, c, "x")
		held := stale.Context()
		if _, err := m.Break(ctxb, "x", stale.Token()); err != nil {
			t.Fatal(err)
		}
		ended(t, held)
		return stale, lock(t, c, "x")
	},
}

func TestStaleUnlockTouchesNoOtherHolder(t *testing.T) {
	for name, prepare := range staleLeases {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newStore()
				stale, next := prepare(t, m)
				released := errors.Is(stale.Err(), fencelock.ErrReleased)
				for range 3 {
					err := stale.Unlock(ctxb)
					if released != (err == nil) || released == errors.Is(err, fencelock.ErrLost) {
						t.Errorf("Unlock: %v, of a lease that is over: %v", err, stale.Err())
					}
					time.Sleep(time.Minute) // by then a client that was cut off is connected again
				}
				wantHolds(t, m, next)
			})
		})
	}
}

// wantHolds fails the test unless the lease holds, here and in the store, and
// still does a while later.
func wantHolds(t *testing.T, m *memstore.Store, l *fencelock.Lease) {
	t.Helper()
	for range 2 {
		st := status(t, m, l.Name())
		if !l.Valid() || isDone(l.Context()) || len(st.Holders) != 1 || st.Holders[0].Token != l.Token().Base() {
			t.Fatalf("the lease with token %v was touched: %v, %+v", l.Token(), l.Err(), st)
		}
		time.Sleep(2 * ttl)
	}
	waiting := status(t, m, l.Name()).Waiting
	unlock(t, l)
	wantClaims(t, m, l.Name(), min(waiting, 1), max(waiting-1, 0))
}

func TestUnlockTwiceGivesTheSameAnswer(t *testing.T) {
	faults := map[string]string{
		"confirmed":           `none`,
		"lost":                `during(1s, 10m, lose(request))`,
		"unconfirmed":         `on(withdraw, nth(1, lose(request)))`,
		"unconfirmed, reply":  `on(withdraw, nth(1, lose(reply)))`,
		"unconfirmed, refuse": `on(withdraw, nth(1, refuse))`,
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newClient(t, bent(t, newStore(), fault), nil)
				lock(t, c, "keeps its session alive")
				l := lock(t, c, "x")
				if name == "lost" {
					ended(t, l.Context())
				}
				sameAnswer(t, l)
			})
		})
	}
	t.Run("broken", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := newStore()
			l := lock(t, newClient(t, m, nil), "x")
			if _, err := m.Break(ctxb, "x", l.Token()); err != nil {
				t.Fatal(err)
			}
			wantIs(t, "Unlock", sameAnswer(t, l), fencelock.ErrLost, fencelock.LossForceUnlock)
		})
	})
}

// sameAnswer unlocks several times and returns the answer.
func sameAnswer(t *testing.T, l *fencelock.Lease) error {
	t.Helper()
	first := l.Unlock(ctxb)
	for range 2 {
		again := l.Unlock(ctxb)
		if fmt.Sprint(first) != fmt.Sprint(again) {
			t.Errorf("Unlock: %v, and then %v", first, again)
		}
		time.Sleep(ttl)
	}
	return first
}
