// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/store/memstore"
)

// The context of a lease must be canceled before the next holder gets the lock, even
// inside one process.
func TestOldContextEndsBeforeTheLeaseIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		var held context.Context
		var early error
		c := locktest.Client(t, memstore.New(nil), &fencelock.Options{Hooks: fencelock.Hooks{Event: func(e fencelock.Event) {
			if e.Kind == fencelock.LeaseHandedOff && held.Err() == nil {
				early = errors.New("passed on while the context of the lease before still lived")
			}
		}}})
		l := locktest.Got(t)(c.Mutex("x").Lock(ctx))
		held = l.Context()
		next := locktest.Go(func() (*fencelock.Lease, error) { return c.Mutex("x").Lock(ctx) })
		locktest.Unlock(t, l)
		locktest.Unlock(t, next.Now(t, "passed on"))
		if early != nil {
			t.Error(early)
		}
	})
}

// A lease that comes to its fixed end is released at once; the store may then grant the
// lock to another client, so the holder must have been notified before (K29).
func TestHolderIsNotifiedBeforeItsSessionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases = 300
		var mu sync.Mutex
		held := map[string]context.Context{}
		early := 0
		store := tap(memstore.New(nil))
		store.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
			mu.Lock()
			if held[w.Name].Err() == nil {
				early++
			}
			mu.Unlock()
			return next(ctx, w)
		}
		c := locktest.Client(t, store, nil)
		for i := range leases {
			name := fmt.Sprint("x", i)
			l := locktest.Got(t)(c.Mutex(name, fencelock.MaxHold(time.Second)).Lock(locktest.Context(t)))
			mu.Lock()
			held[name] = l.Context()
			mu.Unlock()
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if early > 0 {
			t.Errorf("%d of %d leases were released before their holder was notified", early, leases)
		}
	})
}

// A slow hook, such as a log whose pipe is full, must not delay the notice to other
// holders.
func TestSlowHookDoesNotDelayTheNotice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		slow := fencelock.Hooks{Event: func(e fencelock.Event) {
			if e.Kind == fencelock.LeaseLost || e.Kind == fencelock.SessionLost {
				time.Sleep(5 * time.Second)
			}
		}}
		c := newClient(t, bent(t, m, `on(keepalive, lose(request))`), &fencelock.Options{Hooks: slow})
		other := newClient(t, m, nil)
		began := time.Now()
		held := map[string]context.Context{}
		next := map[string]*acquisition{}
		for _, name := range []string{"a", "b", "c"} {
			held[name] = lock(t, c, name).Context()
			next[name] = start(ctxb, other.Mutex(name))
		}
		time.Sleep(time.Until(began.Add(trust)))
		for name, ctx := range held {
			if !isDone(ctx) {
				t.Errorf("the holder of %q was not notified at the deadline", name)
			}
		}
		for name, w := range next {
			w.wait(t, ttl)
			wantIs(t, "cause of "+name, context.Cause(held[name]), fencelock.LossUnrenewed)
		}
		time.Sleep(time.Minute) // the hooks have returned
	})
}

// Leases that an operator broke end with one renewal: all their holders are notified
// before the first hook is called.
func TestSlowHookDoesNotDelayTheNoticeOfABreak(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), &fencelock.Options{Hooks: fencelock.Hooks{Event: func(e fencelock.Event) {
			if e.Kind == fencelock.LeaseLost {
				time.Sleep(5 * time.Second)
			}
		}}})
		var held []context.Context
		for _, name := range []string{"a", "b", "c"} {
			l := lock(t, c, name)
			held = append(held, l.Context())
			if _, err := c.ForceUnlock(ctxb, name, l.Token()); err != nil {
				t.Fatal(err)
			}
		}
		first, notified := context.WithCancel(ctxb)
		defer notified()
		for _, ctx := range held {
			context.AfterFunc(ctx, notified)
		}
		ended(t, first)
		for i, ctx := range held {
			if !isDone(ctx) {
				t.Errorf("holder %d is not notified when another is", i)
			}
		}
		time.Sleep(time.Minute) // the hooks have returned
	})
}

func TestHooksDoNotBlockTheClient(t *testing.T) {
	for _, kind := range []fencelock.EventKind{fencelock.SessionOpened, fencelock.LeaseGranted} {
		t.Run(kind.String(), func(t *testing.T) {
			block := make(chan struct{})
			blocked := make(chan struct{}, 1)
			c := newClient(t, newStore(), &fencelock.Options{Hooks: fencelock.Hooks{Event: func(e fencelock.Event) {
				if e.Kind == kind && (e.Name == "" || e.Name == "x") {
					blocked <- struct{}{}
					<-block
				}
			}}})
			first := make(chan error)
			go func() {
				_, err := c.Mutex("x").Lock(ctxb)
				first <- err
			}()
			<-blocked
			second := make(chan error)
			go func() {
				_, err := c.Mutex("y").Lock(ctxb)
				second <- err
			}()
			select {
			case err := <-second:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(2 * time.Second):
				t.Error("another lock hangs: the hook is called under a mutex")
				defer func() { <-second }()
			}
			close(block)
			if err := <-first; err != nil {
				t.Error(err)
			}
		})
	}
}

// A keep-alive answers between the end of a session and the end of its context. The
// cause is that of the end, and not that the keep-alive came too late.
func TestLateKeepAliveDoesNotChangeTheCauseOfTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, answer := tap(newStore()), make(chan struct{})
		st.OnAlive = func(context.Context, locktest.AliveFunc) (driver.Renewal, error) {
			<-answer
			return driver.Renewal{TTL: ttl}, nil
		}
		st.OnWithdraw = func(context.Context, driver.Withdrawal, locktest.WithdrawFunc) (driver.Removed, error) {
			<-answer
			synctest.Wait()
			return 0, driver.ErrGone // Close was first
		}
		c := newClient(t, st, nil)
		l := lock(t, c, "x")
		coreLease(l).BeforeHoldersAreNotified(func() {
			close(answer)
			time.Sleep(time.Second)
		})
		time.Sleep(renewal)
		synctest.Wait()
		unlocked := make(chan error, 1)
		go func() { unlocked <- l.Unlock(ctxb) }()
		synctest.Wait()
		if err := c.Close(ctxb); err != nil {
			t.Error(err)
		}
		if err := <-unlocked; err != nil {
			t.Errorf("Close has given the lock back, and Unlock returns: %v", err)
		}
	})
}
