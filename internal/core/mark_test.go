// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"strings"
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

// resets are ways in which a store begins a new incarnation without losing what
// a client can reclaim.
var resets = map[string]struct {
	grace bool
	reset func(*memstore.Store)
}{
	"planned failover":            {false, (*memstore.Store).Restart},
	"planned failover with grace": {true, (*memstore.Store).Restart},
	"data loss with grace":        {true, (*memstore.Store).Reset},
}

// The occurrence ran to its end, and the store is reset before the unlock: the
// claim that leaves the mark is reclaimed, whether the unlock comes before the
// resume, during it, or its replies get lost.
func TestOnceMarkSurvivesAResetBeforeTheUnlock(t *testing.T) {
	for name, r := range resets {
		for how, fault := range map[string]string{
			"at once":           `on(close, refuse)`,
			"slow resume":       `on(reclaim, delay(3s, 0s))`,
			"slow open":         `on(open, delay(2s, 0s))`,
			"reclaim reply":     `on(reclaim, nth(1, lose(reply)))`,
			"reclaim refused":   `on(reclaim, nth(1, refuse))`,
			"reclaim request":   `on(reclaim, nth(1, lose(request)))`,
			"withdrawal lost":   `on(withdraw, nth(1, lose(request)))`,
			"answer lost":       `on(withdraw, any(nth(1, lose(reply)), nth(2, lose(reply))))`,
			"withdrawal failed": `on(withdraw, any(nth(1, refuse), nth(2, refuse), nth(3, refuse)))`,
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					m := memstore.New(&memstore.Options{Grace: r.grace})
					c := locktest.Open(t, bent(t, m, fault))
					o := c.Once("job", time.Hour)
					runs := 0
					run := func(context.Context, *fencelock.Lease) error { runs++; return nil }
					res, err := o.Do(ctxb, "1", func(ctx context.Context, l *fencelock.Lease) error {
						r.reset(m)
						return run(ctx, l)
					})
					if res.String() != "ran" {
						t.Fatal(res, err)
					}
					time.Sleep(5 * time.Minute)
					if res, err := o.Do(ctxb, "1", run); runs != 1 {
						t.Errorf("ran %d times: %v, %v", runs, res, err)
					}
				})
			})
		}
	}
}

// The store left the mark, lost it, and its answer comes when the client has
// reclaimed the claim already: the answer is about data that is gone.
func TestOnceMarkSurvivesAResetDuringTheUnlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := graceful()
		st, first := tap(m), true
		st.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
			found, err := next(ctx, w)
			if first {
				first = false
				m.Reset()
				time.Sleep(renewal + 100*time.Millisecond)
			}
			return found, err
		}
		c := newClient(t, st, nil)
		o := c.Once("job", time.Hour)
		res, err := o.Do(ctxb, "1", locktest.Nothing)
		if res.String() != "ran" || len(st.Sent(faultstore.Reclaim)) == 0 {
			t.Fatal(res, err, "or nothing was reclaimed: the test shows nothing")
		}
		time.Sleep(5 * time.Minute)
		locktest.Tick(t, o, "1", "already ran", locktest.Nothing)
	})
}

// Unlock waits for the reclaim, so that its answer means that the mark is there.
func TestOnceConfirmsAMarkLeftOverAFailover(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, m, nil)
		locktest.Tick(t, c.Once("job", time.Hour), "1", "ran", func(context.Context, *fencelock.Lease) error {
			m.Restart()
			return nil
		})
		if st := status(t, m, "job@1"); len(st.Holders) != 1 || !st.Holders[0].Kept {
			t.Errorf("no mark: %+v", st)
		}
	})
}

// A lease that re-entered under Do and outlives it leaves the mark.
func TestOnceMarkIsLeftByTheLastLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		o := c.Once("job", time.Hour)
		var inner *fencelock.Lease
		locktest.Tick(t, o, "1", "ran", func(ctx context.Context, l *fencelock.Lease) (err error) {
			inner, err = c.Mutex(l.Name()).Lock(ctx)
			return err
		})
		locktest.Tick(t, o, "1", "running elsewhere", locktest.Nothing)
		waiter := start(ctxb, c.Mutex("job@1")) // must not be passed the lock
		unlock(t, inner)
		locktest.Tick(t, o, "1", "already ran", locktest.Nothing)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if waiter.over() {
			t.Error("the mark was passed to a local waiter")
		}
		unlock(t, waiter.wait(t, time.Hour))
	})
}

// The store lost its data and does not give the claim back, so no mark can be left:
// Do must not return success.
func TestOnceReportsAMarkThatADataLossPrevented(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		res, err := newClient(t, m, nil).Once("job", time.Hour).Do(ctxb, "1", func(context.Context, *fencelock.Lease) error {
			m.Reset()
			return nil
		})
		if res.String() != "ran" {
			t.Errorf("the outcome is %v, want ran", res)
		}
		wantIs(t, "Do", err, fencelock.ErrLost, fencelock.LossStoreReset)
	})
}

// Another process ran the occurrence after a data loss. Its mark is not that of this run,
// which must be reported: the occurrence ran twice.
func TestOnceDoesNotTakeTheMarkOfAnotherRunForItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		other := newClient(t, m, nil).Once("job", time.Hour)
		res, err := newClient(t, m, nil).Once("job", time.Hour).Do(ctxb, "1", func(context.Context, *fencelock.Lease) error {
			m.Reset()
			locktest.Tick(t, other, "1", "ran", locktest.Nothing)
			return nil
		})
		if res.String() != "ran" {
			t.Errorf("the outcome is %v, want ran", res)
		}
		wantIs(t, "Do", err, fencelock.ErrLost, fencelock.LossStoreReset)
	})
}

// The mark was left, the answer was lost, and a planned failover follows: the claim
// cannot be reclaimed, because it is a mark already. Do returns success.
func TestOnceFindsTheMarkThatItLeftBeforeAFailover(t *testing.T) {
	for _, grace := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			m := memstore.New(&memstore.Options{Grace: grace})
			st, first := tap(m), true
			st.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
				found, err := next(ctx, w)
				if first {
					first = false
					m.Restart()
					return 0, driver.ErrReset
				}
				return found, err
			}
			locktest.Tick(t, newClient(t, st, nil).Once("job", time.Hour), "1", "ran", locktest.Nothing)
			if len(st.Sent(faultstore.Reclaim)) == 0 {
				t.Error("nothing was reclaimed: the test shows nothing")
			}
		})
	}
}

// Close ends the session while the withdrawal that leaves the mark gets no answer.
// Nothing repeats it, so the error is a loss and promises no repetition.
func TestOnceReportsAMarkThatCloseCutShort(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, bent(t, m, `on(withdraw, lose(request))`), nil)
		done := make(chan error, 1)
		go func() {
			_, err := c.Once("job", time.Hour).Do(ctxb, "1", locktest.Nothing)
			done <- err
		}()
		time.Sleep(time.Second)
		must.OK(t, c.Close(ctxb))
		wantClaims(t, m, "job@1", 0, 0)
		wantIs(t, "Do", <-done, fencelock.ErrLost, fencelock.ErrClosed, fencelock.ErrUnavailable)
	})
}

// The store was reset, and the session ends before its leases are reclaimed, while a
// hook delays the withdrawal that leaves the mark. The session that was opened again
// does not have the claim, so its answer does not mean that the mark is there.
func TestOnceReportsAMarkOfASessionThatEndedBeforeTheReclaim(t *testing.T) {
	for name, open := range map[string]time.Duration{"reclaim fails": 0, "open answers after the end": trust} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := graceful()
				st, lost := tap(m), make(chan struct{})
				st.OnOpen = func(ctx context.Context, req driver.OpenRequest, next locktest.OpenFunc) (driver.Session, driver.Renewal, error) {
					if len(st.Sent(faultstore.Open)) > 1 {
						time.Sleep(open) // whatever its context says
					}
					return next(context.WithoutCancel(ctx), req)
				}
				st.OnReclaim = func(context.Context, []driver.Held, bool, locktest.ReclaimFunc) ([]bool, error) {
					return nil, driver.ErrUnavailable
				}
				st.OnClose = func(context.Context) error { return driver.ErrUnavailable }
				hooks := fencelock.Hooks{Event: func(e fencelock.Event) {
					switch e.Kind {
					case fencelock.SessionLost:
						close(lost)
					case fencelock.LeaseReleased:
						<-lost
						time.Sleep(open)
					}
				}}
				res, err := newClient(t, st, &fencelock.Options{Hooks: hooks}).Once("job", time.Hour).Do(ctxb, "1",
					func(context.Context, *fencelock.Lease) error {
						m.Reset()
						time.Sleep(renewal + time.Second)
						return nil
					})
				if res.String() != "ran" {
					t.Errorf("the outcome is %v, want ran", res)
				}
				wantIs(t, "Do", err, fencelock.ErrLost, fencelock.LossUnrenewed)
			})
		})
	}
}

// An Unlock that Close cut short is not repeated, and its error does not promise it.
func TestUnlockCutShortByCloseIsNotReportedAsRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, bent(t, newStore(), `on(withdraw, lose(request))`), nil)
		l := lock(t, c, "x")
		done := make(chan error, 1)
		go func() { done <- l.Unlock(ctxb) }()
		time.Sleep(time.Second)
		must.OK(t, c.Close(ctxb))
		err := <-done
		wantIs(t, "Unlock", err, fencelock.ErrUnavailable, fencelock.ErrReleased)
		if strings.Contains(err.Error(), "repeated") {
			t.Errorf("the session has ended, and the error says: %v", err)
		}
	})
}

// The store lost its data while it ran, and the mark is left while the lease is
// being reclaimed: the reclaim must not take its place.
func TestOnceMarkSurvivesADataLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := graceful()
		st := tap(m)
		reclaiming := make(chan struct{})
		st.OnReclaim = func(ctx context.Context, held []driver.Held, last bool, next locktest.ReclaimFunc) ([]bool, error) {
			close(reclaiming)
			time.Sleep(2 * time.Second)
			return next(ctx, held, last)
		}
		c := newClient(t, st, nil)
		o := c.Once("mail", time.Hour)
		holder := lock(t, c, "keeps its session alive")
		locktest.Tick(t, o, "42", "ran", func(context.Context, *fencelock.Lease) error {
			m.Reset()
			<-reclaiming
			return nil
		})
		time.Sleep(4 * ttl)
		locktest.Tick(t, o, "42", "already ran", locktest.Nothing)
		wantHolds(t, m, holder)
	})
}
