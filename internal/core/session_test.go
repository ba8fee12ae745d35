// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"fmt"
	"sync"
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

func TestOneKeepAliveCarriesEveryLease(t *testing.T) {
	for _, shards := range []int{1, 4} {
		for _, leases := range []int{1, 100, 5000} {
			t.Run(fmt.Sprintf("%d on %d shards", leases, shards), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					m := memstore.New(&memstore.Options{Shards: shards})
					st := tap(m)
					c := newClient(t, st, nil)
					used := map[string]bool{}
					var held []*fencelock.Lease
					for i := range leases {
						l := lock(t, c, fmt.Sprint("n", i))
						used[m.Shard(l.Name())], held = true, append(held, l)
					}
					before := st.Total()
					const periods = 60
					time.Sleep(periods * renewal)
					synctest.Wait()
					calls := st.Total() - before
					if all := len(st.Sent(faultstore.KeepAlive)); calls != all {
						t.Errorf("%d calls, %d of them keep-alives; want nothing else", calls, all)
					}
					// A renewal is up to a tenth of its period early.
					if least, most := len(used)*periods, len(used)*periods*10/9+len(used); calls < least || calls > most {
						t.Errorf("%d keep-alives in %d periods; want %d to %d", calls, periods, least, most)
					}
					for _, l := range held {
						if !l.Valid() {
							t.Fatalf("%q was lost: %v", l.Name(), l.Err())
						}
					}
				})
			})
		}
	}
}

func TestIdleSessionIsLetGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(m)
		c := newClient(t, st, nil)
		l := lock(t, c, "x")
		time.Sleep(10 * ttl)
		if n := len(st.Sent(faultstore.Close)); n != 0 {
			t.Fatalf("a session with a lease was closed: %v", l.Err())
		}
		unlock(t, l)
		time.Sleep(ttl / 2)
		again := lock(t, c, "x") // soon enough for the same session
		if n := len(st.Sent(faultstore.Open)); n != 1 {
			t.Errorf("%d sessions; want one", n)
		}
		unlock(t, again)
		time.Sleep(2 * ttl)
		if n := len(st.Sent(faultstore.Close)); n != 1 {
			t.Errorf("closed %d times after two idle TTLs; want once", n)
		}
		calls := st.Total()
		time.Sleep(time.Hour)
		if st.Total() != calls {
			t.Errorf("an idle client made %d calls", st.Total()-calls)
		}
		l = lock(t, c, "x")
		wantHolds(t, m, l)
		if n := len(st.Sent(faultstore.Open)); n != 2 {
			t.Errorf("%d sessions; want a second", n)
		}
	})
}

// A session is also in use while a caller waits on it.
func TestSessionOfAWaiterIsNotIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(m)
		l := lock(t, newClient(t, m, nil), "x")
		w := start(ctxb, newClient(t, st, nil).Mutex("x"))
		time.Sleep(20 * ttl)
		if n := len(st.Sent(faultstore.Open)); n != 1 || len(st.Sent(faultstore.Close)) != 0 {
			t.Errorf("%d sessions for one waiter", n)
		}
		unlock(t, l)
		unlock(t, w.wait(t, 0))
	})
}

func TestCloseNotifiesHoldersAndWaiters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c, other := newClient(t, m, nil), newClient(t, m, nil)
		mine, theirs := lock(t, c, "mine"), lock(t, other, "theirs")
		held := mine.Context()
		waiters := map[string]*acquisition{
			"in the local queue":             start(ctxb, c.Mutex("mine")),
			"in the store's queue":           start(ctxb, c.Mutex("theirs")),
			"behind the one who asks for it": start(ctxb, c.Mutex("theirs")),
			"re-entrant":                     start(ctxb, c.Mutex("theirs", fencelock.ReentrantAs("me"))),
		}
		began := time.Now()
		must.OK(t, c.Close(ctxb))
		if held.Err() == nil || mine.Valid() {
			t.Error("the holder was not notified when Close returned")
		}
		wantIs(t, "cause", context.Cause(held), fencelock.ErrClosed)
		wantIs(t, "Unlock", mine.Unlock(ctxb), fencelock.ErrClosed)
		for name, w := range waiters {
			if !w.over() {
				t.Fatalf("a waiter %s was not notified", name)
			}
			wantIs(t, name, w.err, fencelock.ErrClosed)
		}
		_, err := c.Mutex("new").Lock(ctxb)
		wantIs(t, "Lock", err, fencelock.ErrClosed)
		_, err = c.Mutex("new").TryLock(ctxb)
		wantIs(t, "TryLock", err, fencelock.ErrClosed)
		wantIs(t, "Lock under the closed lease", func() error {
			_, err := c.Mutex("mine").Lock(context.WithoutCancel(held))
			return err
		}(), fencelock.ErrClosed)
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		if err := c.Close(ctxb); err != nil {
			t.Errorf("Close again: %v", err)
		}
		wantHolds(t, m, theirs)
	}) // the bubble ends only if no goroutine is left
}

func TestCloseGivesLocksBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := memstore.New(&memstore.Options{Shards: 4})
		c, other := newClient(t, m, nil), newClient(t, m, nil)
		for i := range 100 {
			lock(t, c, fmt.Sprint("n", i))
		}
		w := start(ctxb, other.Mutex("n0"))
		must.OK(t, c.Close(ctxb))
		unlock(t, w.wait(t, 0))
		for i := range 100 {
			wantClaims(t, m, fmt.Sprint("n", i), 0, 0)
		}
	})
	t.Run("store does not answer", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := newStore()
			c, other := locktest.Open(t, bent(t, m, `on(close, lose(request))`)), newClient(t, m, nil)
			l := lock(t, c, "x")
			held := l.Context()
			ctx, cancel := context.WithTimeout(ctxb, time.Second)
			defer cancel()
			began := time.Now()
			wantIs(t, "Close", c.Close(ctx), context.DeadlineExceeded)
			if took := time.Since(began); took != time.Second || held.Err() == nil {
				t.Errorf("Close took %v, and the context says %v", took, held.Err())
			}
			lock(t, other, "x")
			if took := time.Since(began); took > ttl+ttl/10 {
				t.Errorf("free after %v; want a TTL", took)
			}
		})
	})
	t.Run("while opening", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			st := tap(newStore())
			st.OnOpen = func(ctx context.Context, req driver.OpenRequest, next locktest.OpenFunc) (driver.Session, driver.Renewal, error) {
				ss, renewal, err := next(ctx, req)
				time.Sleep(time.Second) // ignores its context
				return ss, renewal, err
			}
			c := newClient(t, st, nil)
			a := start(ctxb, c.Mutex("x"))
			must.OK(t, c.Close(ctxb))
			<-a.done
			wantIs(t, "Lock", a.err, fencelock.ErrClosed)
			if n := len(st.Sent(faultstore.Close)); n != 1 {
				t.Errorf("the session was closed %d times; want once", n)
			}
		})
	})
}

// A session that a lock begins to use at the moment it would be let go is either
// used or let go, never both.
func TestSessionIsNotLetGoUnderALock(t *testing.T) {
	const clients = 60
	bubble(t, func(t *testing.T) {
		m := newStore()
		var all sync.WaitGroup
		for i := range clients {
			c := newClient(t, m, nil)
			all.Go(func() {
				name := fmt.Sprint("x", i)
				unlock(t, lock(t, c, name))
				// It is let go with the first renewal that finds it idle for so long.
				time.Sleep(trust + renewal*time.Duration(i)/clients)
				l := lock(t, c, name)
				time.Sleep(2 * renewal)
				if err := l.Err(); err != nil {
					t.Errorf("client %d: a lease of a session in use has ended: %v", i, err)
				}
				unlock(t, l)
			})
		}
		all.Wait()
	})
}

// gone is a store that ends every session at its first attempt.
func gone(store driver.Store) *locktest.Tap {
	st := tap(store)
	st.OnAttempt = func(context.Context, *driver.Claim, locktest.AttemptFunc) (driver.Outcome, error) {
		if len(st.Sent(faultstore.Attempt)) > 1000 {
			return driver.Outcome{}, errNoAuth // or fake time would stand still forever
		}
		return driver.Outcome{}, driver.ErrGone
	}
	return st
}

func TestSessionThatIsGoneAgainIsNotHammered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := gone(newStore())
		c := newClient(t, st, nil)
		began := time.Now()
		_, err := c.Mutex("x").Lock(ctxb)
		wantIs(t, "Lock", err, fencelock.ErrUnavailable)
		if n := len(st.Sent(faultstore.Attempt)); n < 3 || n > 100 {
			t.Errorf("%d attempts in %v", n, time.Since(began))
		}
		if waited := time.Since(began); waited < ttl || waited > ttl+ttl/5 {
			t.Errorf("gave up after %v; want Options.StoreTimeout", waited)
		}
	})
}
