// SPDX-License-Identifier: Apache-2.0

package fencelock_test

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
	"github.com/fencelock/fencelock/memstore"
)

// Work that goes on under the context of a lease must be told to stop before
// the next holder is let in, also inside one process.
func TestOldContextEndsBeforeTheLeaseIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := kindContext(t)
		var held context.Context
		var early error
		c := kindClient(t, memstore.New(nil), &fencelock.Options{Hooks: fencelock.Hooks{Event: func(e fencelock.Event) {
			if e.Kind == fencelock.LeasePassed && held.Err() == nil {
				early = errors.New("passed on while the context of the lease before still lived")
			}
		}}})
		l := kindGot(t)(c.Mutex("x").Lock(ctx))
		held = l.Context()
		next := kindGo(func() (*fencelock.Lease, error) { return c.Mutex("x").Lock(ctx) })
		kindUnlock(t, l)
		kindUnlock(t, next.now(t, "passed on"))
		if early != nil {
			t.Error(early)
		}
	})
}

// kindWatched is a store that calls before with the name of each withdrawal.
type kindWatched struct {
	driver.Store
	before func(name string)
}

func (s kindWatched) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Life, error) {
	ss, life, err := s.Store.Open(ctx, req)
	return kindWatchedSession{ss, s.before}, life, err
}

type kindWatchedSession struct {
	driver.Session
	before func(name string)
}

func (s kindWatchedSession) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	s.before(w.Name)
	return s.Session.Withdraw(ctx, w)
}

// A lease that comes to its own end is given back to the store at once; the
// store may then grant it to another, so its holder must have been told (K29).
func TestHolderIsToldBeforeItsEndIsSaidToTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases = 300
		var mu sync.Mutex
		held := map[string]context.Context{}
		early := 0
		store := kindWatched{memstore.New(nil), func(name string) {
			mu.Lock()
			defer mu.Unlock()
			if held[name].Err() == nil {
				early++
			}
		}}
		c := kindClient(t, store, nil)
		for i := range leases {
			name := fmt.Sprint("x", i)
			l := kindGot(t)(c.Mutex(name, fencelock.FixedLease(time.Second)).Lock(kindContext(t)))
			mu.Lock()
			held[name] = l.Context()
			mu.Unlock()
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if early > 0 {
			t.Errorf("%d of %d leases were given back before their holder was told", early, leases)
		}
	})
}

// A hook that takes its time, such as a log whose pipe is full, must not keep
// other holders from being told.
func TestSlowHookDoesNotDelayTheTelling(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		slow := fencelock.Hooks{Event: func(e fencelock.Event) {
			if e.Kind == fencelock.LeaseLost || e.Kind == fencelock.SessionLost {
				time.Sleep(5 * time.Second)
			}
		}}
		c := newClient(t, bent(t, m, `during(1s, 10m, on(keepalive, lose(request)))`), &fencelock.Options{Hooks: slow})
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
				t.Errorf("the holder of %q was not told at the deadline", name)
			}
		}
		for name, w := range next {
			w.wait(t, ttl)
			wantIs(t, "cause of "+name, context.Cause(held[name]), fencelock.ErrUnrenewed)
		}
		time.Sleep(time.Minute) // the hooks have returned
	})
}

// Leases that an operator broke end with one renewal: all are told before the
// first hook is called.
func TestSlowHookDoesNotDelayTheTellingOfABreak(t *testing.T) {
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
			if _, err := c.Break(ctxb, name, l.Token()); err != nil {
				t.Fatal(err)
			}
		}
		first, told := context.WithCancel(ctxb)
		defer told()
		for _, ctx := range held {
			context.AfterFunc(ctx, told)
		}
		ended(t, first)
		for i, ctx := range held {
			if !isDone(ctx) {
				t.Errorf("holder %d is not told when another is", i)
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
