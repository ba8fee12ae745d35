// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
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

// A reply that is lost while the leases are reclaimed leaves time for another
// try, whatever Options.CallTimeout is.
func TestLostRepliesOfAResumeLoseNothing(t *testing.T) {
	for name, c := range map[string]struct {
		fault   string
		timeout time.Duration
	}{
		"reclaim, long call timeout": {`on(reclaim, nth(1, lose(reply)))`, 20 * time.Second},
		"open, long call timeout":    {`on(open, nth(2, lose(reply)))`, 20 * time.Second},
		"both, defaults":             {`any(on(open, nth(2, lose(reply))), on(reclaim, nth(1, lose(reply))))`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := memstore.New(&memstore.Options{Grace: true})
				client := newClient(t, bent(t, store, c.fault), &fencelock.Options{CallTimeout: c.timeout})
				l := lock(t, client, "x")
				time.Sleep(time.Second)
				store.Restart()
				time.Sleep(2 * ttl)
				if err := l.Err(); err != nil {
					t.Errorf("the lease is lost: %v", err)
				}
			})
		})
	}
}

// A session that is opened again, to be resumed or to be closed, is opened with its last value. An Open that failed
// changes nothing.
func TestSessionIsOpenedAgainWithItsLastValue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{Grace: true})
		var last driver.Session
		var opens atomic.Int32
		st := tap(store)
		st.OnOpen = func(ctx context.Context, req driver.OpenRequest, next locktest.OpenFunc) (driver.Session, driver.Renewal, error) {
			n := opens.Add(1)
			if req.Before != last {
				t.Errorf("Open %d: Before is %v, want %v", n, req.Before, last)
			}
			if n == 2 {
				return nil, driver.Renewal{}, driver.ErrUnavailable
			}
			s, renewal, err := next(ctx, req)
			last = s
			return s, renewal, err
		}
		c := newClient(t, st, nil)
		l := lock(t, c, "x")
		store.Restart()
		time.Sleep(2 * ttl)
		if opens.Load() != 3 || l.Err() != nil {
			t.Fatalf("opened %d times, want 3; the lease is %v", opens.Load(), l.Err())
		}
		store.Restart()
		must.OK(t, c.Close(t.Context()))
		if n := opens.Load(); n != 4 {
			t.Errorf("opened %d times, want once more to close it", n)
		}
	})
}

func TestOneDataLossIsOneEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{Grace: true})
		var n atomic.Int32
		hooks := fencelock.Hooks{Event: func(e fencelock.Event) {
			if e.Kind == fencelock.SessionReset {
				n.Add(1)
			}
		}}
		c := newClient(t, bent(t, store, `on(open, during(2s, 9s, refuse))`), &fencelock.Options{Hooks: hooks})
		l := lock(t, c, "x")
		for losses := range int32(2) {
			time.Sleep(2 * time.Second)
			store.Restart()
			time.Sleep(20 * time.Second)
			if n.Load() != losses+1 {
				t.Errorf("%d data losses, %d events", losses+1, n.Load())
			}
		}
		unlock(t, l)
	})
}

// Timers stand still while the machine is suspended, so the renewal that was due
// then is made as soon as the suspend is noticed.
func TestRenewalThatASuspendDelayedIsMadeAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var slept atomic.Int64
		suspended := func() time.Duration { return time.Duration(slept.Load()) }
		store := memstore.New(&memstore.Options{Now: func() time.Time { return time.Now().Add(suspended()) }})
		st := tap(store)
		c, err := newSuspendable(st, nil, suspended)
		must.OK(t, err)
		closeLater(t, c)
		l := lock(t, c, "x")
		for len(st.Sent(faultstore.KeepAlive)) == 0 { // the first one may come at any time
			time.Sleep(100 * time.Millisecond)
		}
		slept.Store(int64(9500 * time.Millisecond))
		time.Sleep(10 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("the store answers and seconds of trusted time were left after the suspend, but: %v", err)
		}
	})
}

// The store grants a queued claim after a restart and before the session of the
// claim is opened again. The waiter finds the grant on the new connection, but its
// attempt was made on the old one. The end of the reclaim must not drop the grant
// under a holder.
func TestGrantPushedAfterARestartIsNotDroppedByTheReclaim(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(m)
		c, other := newClient(t, st, nil), newClient(t, m, nil)
		holder, first := lock(t, c, "keeps its session alive"), lock(t, other, "x")
		st.OnAttempt = func(ctx context.Context, claim *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			out, err := next(ctx, claim)
			if len(st.Sent(faultstore.Attempt)) == 2 {
				m.Restart()
				if _, err := m.Break(ctxb, "x", first.Token()); err != nil {
					t.Error(err)
				}
				for len(st.Sent(faultstore.Reclaim)) == 0 { // a slow reply
					time.Sleep(100 * time.Millisecond)
				}
			}
			return out, err
		}
		st.OnReclaim = func(ctx context.Context, held []driver.Held, last bool, next locktest.ReclaimFunc) ([]bool, error) {
			time.Sleep(2 * time.Second) // a slow request
			return next(ctx, held, last)
		}
		l := lock(t, c, "x")
		if n := len(st.Sent(faultstore.Reclaim)); n != 1 {
			t.Fatalf("%d reclaims when the lease was returned; want one in flight", n)
		}
		time.Sleep(3 * time.Second)
		wantClaims(t, m, "x", 1, 0)
		wantHolds(t, m, l)
		wantHolds(t, m, holder)
	})
}

// TestUnlockBeforeTheReclaimIsNotConfirmed: the store lost its data, and another process has the
// lock before this one can reclaim it. An unlock in between finds no claim, which must not be
// taken for a withdrawal that was executed before.
func TestUnlockBeforeTheReclaimIsNotConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(m)
		reclaiming := make(chan struct{})
		st.OnReclaim = func(ctx context.Context, held []driver.Held, last bool, next locktest.ReclaimFunc) ([]bool, error) {
			close(reclaiming)
			time.Sleep(time.Second)
			return next(ctx, held, last)
		}
		c, other := newClient(t, st, nil), newClient(t, m, nil)
		l := lock(t, c, "x")
		m.Reset()
		<-reclaiming
		next := lock(t, other, "x")
		wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.ErrReleased, fencelock.ErrUnavailable)
		time.Sleep(2 * time.Second)
		wantHolds(t, m, next)
	})
}

// TestUnlockAfterTheReclaimIsConfirmedTwice: a client library sends the withdrawal of a lease that
// was reclaimed twice, and the second finds no claim.
func TestUnlockAfterTheReclaimIsConfirmedTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := graceful()
		c := newClient(t, bent(t, m, `on(withdraw, dup)`), nil)
		l := lock(t, c, "x")
		m.Reset()
		time.Sleep(2 * ttl) // it is reclaimed
		if err := l.Unlock(ctxb); err != nil {
			t.Errorf("Unlock of a lease that was reclaimed: %v", err)
		}
	})
}

// A try that learns of a data loss makes the session resume at once. Without a caller that
// waits, the next renewal would come first.
func TestTryThatLearnsOfADataLossResumesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := graceful()
		st := tap(m)
		c := newClient(t, st, nil)
		l := lock(t, c, "held")
		m.Reset()
		began := time.Now()
		_, err := c.Mutex("x").TryLock(ctxb)
		wantIs(t, "TryLock", err, fencelock.ErrGrace)
		if took := time.Since(began); took > ttl/150 {
			t.Errorf("it took %v", took)
		}
		synctest.Wait()
		if n := len(st.Sent(faultstore.Reclaim)); n != 1 {
			t.Errorf("%d reclaims right after the try", n)
		}
		unlock(t, l)
	})
}
