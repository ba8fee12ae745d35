// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"sync"
	"sync/atomic"
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

func TestDeadlineCountsFromTheSend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(bent(t, newStore(), `any(on(open, delay(1s, 2s)), on(keepalive, delay(400ms, 1s)), on(attempt, delay(50ms, 50ms)))`))
		c := newClient(t, st, nil)
		began := time.Now()
		l := lock(t, c, "a")
		wantNear(t, "deadline after the opening", l.Deadline(), began.Add(trust))
		if waited := time.Since(began); waited != 3100*time.Millisecond {
			t.Fatalf("the lock took %v; the delays did not come about", waited)
		}
		for range 5 {
			before := len(st.Sent(faultstore.KeepAlive))
			for len(st.Sent(faultstore.KeepAlive)) == before {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(2 * time.Second) // the reply is there
			calls := st.Sent(faultstore.KeepAlive)
			wantNear(t, "deadline after a renewal", l.Deadline(), calls[len(calls)-1].At.Add(trust))
		}
		sent := time.Now()
		fixed := lock(t, c, "fixed", fencelock.MaxHold(5*time.Second))
		// The store was asked 50 ms after the send, and its clock may run
		// faster by the drift.
		wantNear(t, "deadline of a fixed lease", fixed.Deadline(), sent.Add(fixedFor(5*time.Second)))
	})
}

// hangs are stores that stop answering and also ignore their context. The test takes a
// lease, lets hang get the store stuck and goes on with then.
var hangs = []struct {
	name string
	hang func(st *locktest.Tap, m *memstore.Store, s stuck)
	then func(ctx context.Context, c *fencelock.Client)
}{
	{"keepalive", func(st *locktest.Tap, _ *memstore.Store, s stuck) {
		st.OnAlive = func(ctx context.Context, _ locktest.AliveFunc) (driver.Renewal, error) {
			s.hang()
			return driver.Renewal{}, ctx.Err()
		}
	}, nil},
	{"open of a resume", func(st *locktest.Tap, m *memstore.Store, s stuck) {
		opened := false
		st.OnOpen = func(ctx context.Context, req driver.OpenRequest, next locktest.OpenFunc) (driver.Session, driver.Renewal, error) {
			if opened {
				s.hang()
			}
			opened = true
			return next(ctx, req)
		}
	}, nil},
	{"attempt", func(st *locktest.Tap, _ *memstore.Store, s stuck) {
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			if c.Name == "b" {
				s.hang()
			}
			return next(ctx, c)
		}
		st.OnAlive = unavailable
	}, func(ctx context.Context, c *fencelock.Client) { _, _ = c.Mutex("b").Lock(ctx) }},
	{"await", func(st *locktest.Tap, _ *memstore.Store, s stuck) {
		st.OnAwait = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			s.hang()
			return next(ctx, c)
		}
		st.OnAlive = unavailable
	}, func(ctx context.Context, c *fencelock.Client) { _, _ = c.Mutex("taken").Lock(ctx) }},
	{"withdraw", func(st *locktest.Tap, _ *memstore.Store, s stuck) {
		st.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
			s.hang()
			return next(ctx, w)
		}
		st.OnAlive = unavailable
	}, func(ctx context.Context, c *fencelock.Client) {
		if l, err := c.Mutex("b").Lock(ctx); err == nil {
			_ = l.Unlock(ctx)
		}
	}},
}

func unavailable(context.Context, locktest.AliveFunc) (driver.Renewal, error) {
	return driver.Renewal{}, driver.ErrUnavailable
}

func TestHolderIsNotifiedAtTheDeadlineWhateverIsInFlight(t *testing.T) {
	for _, h := range hangs {
		t.Run(h.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, s := newStore(), make(stuck)
				st := tap(m)
				h.hang(st, m, s)
				c, other := newClient(t, st, nil), newClient(t, m, nil)
				lock(t, other, "taken")
				ctx, cancel := context.WithCancel(ctxb)
				var wg sync.WaitGroup
				t.Cleanup(func() { close(s); cancel(); wg.Wait() })
				began := time.Now()
				l := lock(t, c, "a")
				held := l.Context()
				if h.name == "open of a resume" {
					m.Reset()
				}
				if h.then != nil {
					wg.Go(func() { h.then(ctx, c) })
				}
				time.Sleep(trust - time.Millisecond)
				if !l.Valid() || isDone(held) {
					t.Fatal("ended before the deadline")
				}
				wantNear(t, "end of the context", ended(t, held), began.Add(trust))
				wantIs(t, "cause", context.Cause(held), fencelock.ErrLost, fencelock.LossUnrenewed)
				if l.Valid() {
					t.Error("still valid after the deadline")
				}
				lock(t, other, "a")
				if late := time.Since(began); late > ttl+ttl/10 {
					t.Errorf("the lock was free %v after the last sign of life", late)
				}
			})
		})
	}
}

func TestLateRenewalDoesNotReviveALease(t *testing.T) {
	t.Run("slow reply", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			st := tap(newStore())
			st.OnAlive = func(ctx context.Context, next locktest.AliveFunc) (driver.Renewal, error) {
				renewal, err := next(ctx)
				time.Sleep(2 * ttl) // ignores its context
				return renewal, err
			}
			c := newClient(t, st, nil)
			l := lock(t, c, "a")
			ended(t, l.Context())
			time.Sleep(3 * ttl)
			if l.Valid() || l.Deadline().After(time.Now()) {
				t.Error("the late renewal made the lease valid again")
			}
			wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.ErrLost, fencelock.LossUnrenewed)
		})
	})
	t.Run("suspended", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var asleep, calls atomic.Int64
			var l *fencelock.Lease
			st := tap(newStore())
			st.OnAlive = func(ctx context.Context, next locktest.AliveFunc) (driver.Renewal, error) {
				answer, err := next(ctx)
				if calls.Add(1) == 1 { // which comes at any time
					return answer, err
				}
				// Past the old deadline, but not past the one of this renewal.
				asleep.Store(int64(trust - renewal/2))
				if l.Valid() {
					t.Error("valid after the deadline")
				}
				return answer, err
			}
			c, err := newSuspendable(st, nil, func() time.Duration { return time.Duration(asleep.Load()) })
			must.OK(t, err)
			closeLater(t, c)
			l = lock(t, c, "a")
			held := l.Context()
			for calls.Load() < 2 {
				time.Sleep(renewal / 10)
			}
			synctest.Wait()
			if l.Valid() {
				t.Error("a renewal that came after the deadline made the lease valid again")
			}
			time.Sleep(suspendTick)
			if !isDone(held) {
				t.Error("the holder was not notified")
			}
		})
	})
}

func TestFailedRenewalIsTriedAgain(t *testing.T) {
	faults := map[string]string{
		"refused":      `during(1s, 12s, on(keepalive, refuse))`,
		"failed":       `during(1s, 12s, on(keepalive, fail))`, // a password that is being replaced
		"lost request": `during(1s, 9s, on(keepalive, lose(request)))`,
		"lost reply":   `during(1s, 9s, on(keepalive, lose(reply)))`,
		"cut":          `on(keepalive, nth(1, cut(6s)))`,
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st := tap(bent(t, newStore(), fault))
				c := newClient(t, st, nil)
				l := lock(t, c, "a")
				time.Sleep(trust - time.Second)
				if n := len(st.Sent(faultstore.KeepAlive)); n < 3 || n > 100 {
					t.Errorf("%d keep-alives in a trusted time with a bad store", n)
				}
				time.Sleep(10 * ttl)
				if err := l.Err(); err != nil {
					t.Fatalf("the lease did not survive: %v", err)
				}
				unlock(t, l)
			})
		})
	}
}

func TestOneLostReplyOfARenewalLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := bent(t, newStore(), `on(keepalive, nth(1, lose(reply)))`)
		c := newClient(t, st, nil)
		l := lock(t, c, "a")
		held := l.Context()
		time.Sleep(10 * ttl)
		if isDone(held) || !l.Valid() {
			t.Fatalf("lost: %v", context.Cause(held))
		}
		if st.Injected()[faultstore.LostReply] != 1 {
			t.Fatal("no reply was lost")
		}
		unlock(t, l)
	})
}

// The store may shorten the TTL with any answer, and counts from then on.
func TestShorterTTLMovesTheDeadlineBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const short = 4 * time.Second
		m := newStore()
		st := tap(m)
		var req driver.OpenRequest
		st.OnOpen = func(ctx context.Context, r driver.OpenRequest, next locktest.OpenFunc) (driver.Session, driver.Renewal, error) {
			req = r
			return next(ctx, r)
		}
		st.OnAlive = func(ctx context.Context, next locktest.AliveFunc) (driver.Renewal, error) {
			if len(st.Sent(faultstore.KeepAlive)) == 1 {
				req.TTL = short
				_, renewal, err := m.Open(ctx, req) // the store allows so much now
				return renewal, err
			}
			<-ctx.Done()
			return driver.Renewal{}, driver.ErrUnknown
		}
		c, other := newClient(t, st, nil), newClient(t, m, nil)
		l := lock(t, c, "x")
		held := l.Context()
		w := start(ctxb, other.Mutex("x"))
		notified := ended(t, held)
		sent := st.Sent(faultstore.KeepAlive)[0].At
		wantNear(t, "notified", notified, sent.Add(short*99/100-ttl/10))
		unlock(t, w.wait(t, short))
		if w.at.Before(notified) {
			t.Errorf("another client had the lock %v before the holder was notified", notified.Sub(w.at))
		}
	})
}
