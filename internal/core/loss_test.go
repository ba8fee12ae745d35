// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// napper is a machine that can be suspended.
type napper struct{ asleep atomic.Int64 }

func (n *napper) suspend(d time.Duration)  { n.asleep.Add(int64(d)) }
func (n *napper) suspended() time.Duration { return time.Duration(n.asleep.Load()) }

// client returns a client on that machine.
func (n *napper) client(t *testing.T, store driver.Store) *fencelock.Client {
	t.Helper()
	c, err := newSuspendable(store, nil, n.suspended)
	must.OK(t, err)
	closeLater(t, c)
	return c
}

func TestSuspendCountsAsTime(t *testing.T) {
	t.Run("holder", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var n napper
			l := lock(t, n.client(t, newStore()), "a")
			held := l.Context()
			time.Sleep(time.Second)
			n.suspend(time.Hour)
			if l.Valid() {
				t.Error("valid right after the resume")
			}
			woke := time.Now()
			if notified := ended(t, held).Sub(woke); notified > suspendTick {
				t.Errorf("notified %v after the resume", notified)
			}
			wantIs(t, "cause", context.Cause(held), fencelock.ErrLost, fencelock.LossUnrenewed)
			wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.ErrLost)
		})
	})
	t.Run("fixed lease", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var n napper
			l := lock(t, n.client(t, newStore()), "a", fencelock.MaxHold(5*time.Second))
			held := l.Context()
			n.suspend(5 * time.Second)
			woke := time.Now()
			if notified := ended(t, held).Sub(woke); notified > suspendTick {
				t.Errorf("notified %v after the resume", notified)
			}
			wantIs(t, "cause", context.Cause(held), fencelock.LossMaxHold)
		})
	})
	t.Run("grant under way", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var n napper
			first := driver.Token(0)
			st := tap(newStore())
			st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
				out, err := next(ctx, c)
				if first == 0 {
					first = out.Token
					n.suspend(time.Hour) // with the answer in the socket
				}
				return out, err
			}
			l := lock(t, n.client(t, st), "a")
			if l.Token().Base() == first {
				t.Error("admitted a grant from before the suspend")
			}
			if !l.Valid() {
				t.Error("the lease is not valid")
			}
		})
	})
}

// slowStore delays every keep-alive, and loses none.
const slowStore = `on(keepalive, delay(1s, 1s))`

// lossFaults are faults by which a holder loses its lease.
var lossFaults = []string{
	`during(5s, 10m, lose(request))`, `during(5s, 10m, lose(reply))`, `during(5s, 10m, refuse)`,
	`on(keepalive, nth(2, cut(1m)))`, `on(keepalive, after(3, delay(0s, 10m)))`,
	`any(on(keepalive, delay(0s, 2s)), on(keepalive, after(2, cut(10m))))`, `any(on(open, delay(0s, 4s)), on(keepalive, cut(10m)))`,
}

// fastStore returns a store whose clock is as fast as the drift allows. It must be called in a
// bubble.
func fastStore() *memstore.Store {
	began := time.Now()
	return memstore.New(&memstore.Options{Now: func() time.Time {
		return began.Add(time.Since(began) * 100 / 99)
	}})
}

// TestHolderIsNotifiedAMarginBefore: when the holder is notified, the store keeps the lock for
// it for another margin. The test fails if the deadline leaves out the drift or the margin.
func TestHolderIsNotifiedAMarginBefore(t *testing.T) {
	for _, fault := range lossFaults {
		t.Run(fault, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := fastStore()
				l := lock(t, newClient(t, bent(t, m, fault), nil), "x")
				ended(t, l.Context())
				const margin = ttl / 10
				time.Sleep(margin - time.Millisecond)
				if st := status(t, m, "x"); len(st.Holders) != 1 || st.Holders[0].Token != l.Token() {
					t.Errorf("less than %v after the holder was notified the store has %+v", margin, st)
				}
			})
		})
	}
}

func TestHolderIsNotifiedBeforeAnotherHolds(t *testing.T) {
	for _, fault := range append(slices.Clip(lossFaults), slowStore) {
		t.Run(fault, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := fastStore()
				a, b := newClient(t, bent(t, m, fault), nil), newClient(t, m, nil)
				for range 3 {
					l := lock(t, a, "x")
					held := l.Context()
					ctx, cancel := context.WithTimeout(ctxb, 2*time.Minute)
					next, err := b.Mutex("x").Lock(ctx)
					cancel()
					if errors.Is(err, context.DeadlineExceeded) && fault == slowStore {
						unlock(t, l) // a slow store is no reason to lose anything
						continue
					}
					must.OK(t, err)
					if held.Err() == nil || l.Valid() {
						t.Fatal("a second holder while the first does not know")
					}
					if next.Token() <= l.Token() {
						t.Errorf("token %v after %v", next.Token(), l.Token())
					}
					unlock(t, next)
					break
				}
			})
		})
	}
}

// endings are all the ways in which a lease ends.
var endings = []struct {
	name  string
	fault string
	opts  []fencelock.LockOption
	end   func(t *testing.T, c *fencelock.Client, m *memstore.Store, l *fencelock.Lease)
	cause []error
}{
	{"released", `none`, nil, func(t *testing.T, _ *fencelock.Client, _ *memstore.Store, l *fencelock.Lease) { unlock(t, l) },
		[]error{fencelock.ErrReleased}},
	{"unrenewed", `after(2, lose(request))`, nil, nil, []error{fencelock.ErrLost, fencelock.LossUnrenewed}},
	{"expired", `none`, []fencelock.LockOption{fencelock.MaxHold(time.Second)}, nil, []error{fencelock.ErrLost, fencelock.LossMaxHold}},
	{"broken", `none`, nil, func(t *testing.T, c *fencelock.Client, _ *memstore.Store, l *fencelock.Lease) {
		if _, err := c.ForceUnlock(ctxb, l.Name(), l.Token()); err != nil {
			t.Fatal(err)
		}
	}, []error{fencelock.ErrLost, fencelock.LossForceUnlock}},
	{"forgotten", `none`, nil, func(_ *testing.T, _ *fencelock.Client, m *memstore.Store, _ *fencelock.Lease) { m.Reset() },
		[]error{fencelock.ErrLost, fencelock.LossStoreReset}},
	{"ended by the store", `none`, nil, func(_ *testing.T, _ *fencelock.Client, m *memstore.Store, _ *fencelock.Lease) { m.StepClock(time.Hour) },
		[]error{fencelock.ErrLost, fencelock.LossSessionEnded}},
	{"closed", `none`, nil, func(t *testing.T, c *fencelock.Client, _ *memstore.Store, _ *fencelock.Lease) {
		must.OK(t, c.Close(ctxb))
	}, []error{fencelock.ErrClosed}},
}

func TestCauseNamesTheReason(t *testing.T) {
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newStore()
				c := newClient(t, bent(t, m, e.fault), nil)
				l := lock(t, c, "a", e.opts...)
				held := l.Context()
				if e.end != nil {
					e.end(t, c, m, l)
				}
				ended(t, held)
				wantIs(t, "Err of the context", held.Err(), context.Canceled)
				wantIs(t, "cause", context.Cause(held), e.cause...)
				wantIs(t, "Err", l.Err(), e.cause...)
				wantIs(t, "cause of a context asked for later", context.Cause(l.Context()), e.cause...)
				if err := l.Unlock(ctxb); e.name == "released" {
					wantIs(t, "Unlock", err, nil)
				} else {
					wantIs(t, "Unlock", err, e.cause...)
				}
				if lost := errors.Is(l.Err(), fencelock.ErrLost); lost != (len(e.cause) > 1) {
					t.Errorf("ErrLost is %v of %v", lost, l.Err())
				}
			})
		})
	}
}

func TestValidComparesTheClockAtTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n napper
		l := lock(t, n.client(t, newStore()), "a")
		held := l.Context()
		n.suspend(trust + time.Millisecond) // no timer has run
		if l.Valid() {
			t.Error("Valid waits for a timer")
		}
		wantIs(t, "Err", l.Err(), fencelock.ErrLost)
		if held.Err() != nil {
			t.Error("the context ended without a timer: the test shows nothing")
		}
		wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.ErrLost)
		if held.Err() == nil {
			t.Error("the context lives on after Unlock")
		}
	})
}

// A process that was suspended for longer than its session was trusted has lost its leases
// by its own clock, whether a timer notices it first, or the store that was asked for another
// lock.
func TestReasonAfterASuspendIsThatOfTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n napper
		m := newStore()
		c := n.client(t, m)
		l := lock(t, c, "a")
		held := l.Context()
		n.suspend(time.Hour)
		m.StepClock(time.Hour) // at the server, too, an hour has passed
		wantIs(t, "Err before", l.Err(), fencelock.LossUnrenewed)
		other, err := c.Mutex("b").TryLock(ctxb)
		must.OK(t, err)
		wantIs(t, "Err after", l.Err(), fencelock.LossUnrenewed)
		wantIs(t, "cause", context.Cause(held), fencelock.LossUnrenewed)
		unlock(t, other)
	})
}

// A lease with an end of its own that was not renewed is lost for that reason.
func TestLeaseWithAnEndThatWasNotRenewedSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n napper
		l := lock(t, n.client(t, newStore()), "a", fencelock.MaxHold(time.Hour))
		n.suspend(time.Minute)
		wantIs(t, "Err", l.Err(), fencelock.LossUnrenewed)
		wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.LossUnrenewed)
	})
}

// A loss always has one of the documented reasons.
func TestRefusedRenewalHasAReason(t *testing.T) {
	refused := fmt.Errorf("another list of members is in use: %w", driver.ErrRefused)
	for name, answer := range map[string]func() (driver.Renewal, error){
		"refused":   func() (driver.Renewal, error) { return driver.Renewal{}, refused },
		"too short": func() (driver.Renewal, error) { return driver.Renewal{TTL: ttl / 100}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st := tap(newStore())
				st.OnAlive = func(context.Context, locktest.AliveFunc) (driver.Renewal, error) { return answer() }
				held := lock(t, newClient(t, st, nil), "a").Context()
				ended(t, held)
				wantIs(t, "cause", context.Cause(held), fencelock.ErrLost, fencelock.LossSessionEnded, driver.ErrRefused)
			})
		})
	}
}

// TestLostSessionIsNotGivenBackBeforeItsMargin: renewals are lost, but the Close of the
// session gets to the store.
func TestLostSessionIsNotGivenBackBeforeItsMargin(t *testing.T) {
	const margin = ttl / 10
	bubble(t, func(t *testing.T) {
		m := newStore()
		a, b := newClient(t, bent(t, m, `on(keepalive, lose(request))`), nil), newClient(t, m, nil)
		l := lock(t, a, "x")
		held := l.Context()
		next := start(ctxb, b.Mutex("x"))
		notified := ended(t, held)
		next.wait(t, ttl)
		if left := next.at.Sub(notified); left < margin {
			t.Errorf("another held the lock %v after the holder was notified, the margin is %v", left, margin)
		}
	})
	t.Run("close", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := newStore()
			c := newClient(t, bent(t, m, `on(keepalive, lose(request))`), nil)
			ended(t, lock(t, c, "x").Context())
			began := time.Now()
			must.OK(t, c.Close(ctxb))
			wantNear(t, "Close waits for no margin", time.Now(), began)
			wantClaims(t, m, "x", 0, 0)
		})
	})
}
