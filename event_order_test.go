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
