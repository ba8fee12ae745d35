// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// world has two servers on one store, in a bubble of fake time.
type world struct {
	*testing.T
	store   driver.Store
	links   [2]*link
	servers [2]*Leases
}

const (
	ttl       = 10 * time.Second // of clients
	serverTTL = 30 * time.Second
)

// inWorld runs a test with servers.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, store: memstore.New(nil)}
		for i := range w.servers {
			w.links[i] = &link{Store: w.store}
			client, err := fencelock.New(w.links[i], &fencelock.Options{TTL: serverTTL, LocalHandoff: -1})
			must.OK(t, err)
			closing := make(chan struct{})
			w.servers[i] = New(client, true, closing)
			t.Cleanup(func() {
				close(closing)
				w.links[i].down.Store(false)
				_ = client.Close(context.Background())
			})
		}
		test(w)
	})
}

// client makes a session.
func (w *world) client() Handle {
	w.Helper()
	h, err := NewHandle(ttl, "")
	must.OK(w, err)
	return h
}

// atOnce fails if a call waits.
func (w *world) atOnce(call func()) {
	w.Helper()
	began := time.Now()
	if call(); time.Since(began) > 0 {
		w.Errorf("the call took %v", time.Since(began))
	}
}

func calls(h Handle) *Caller { return &Caller{User: "ann", Handle: h, Received: time.Now()} }

// acquire acquires at a server; the lock is free or joined.
func (w *world) acquire(at int, h Handle, id, lock string) (a Answer) {
	w.Helper()
	w.atOnce(func() {
		var err error
		if a, err = w.servers[at].Acquire(w.Context(), calls(h), &Request{ID: id, Lock: lock, Wait: ttl}); err != nil || a.State != Held {
			w.Fatalf("%s at %d: %+v, %v", lock, at, a, err)
		}
	})
	return a
}

func named(a Answer) Named { return Named{ID: a.ID, Lock: a.Lock, Token: a.Token, Moved: a.Moved} }

// renew renews at a server, and does not wait.
func (w *world) renew(at int, h Handle, a Answer) (Answer, error) {
	w.Helper()
	all, err := w.servers[at].Renew(w.Context(), calls(h), []Named{named(a)}, 0)
	if err != nil {
		return Answer{}, err
	}
	return all[0], nil
}

// renewed is renew of a lease that must be held still.
func (w *world) renewed(at int, h Handle, a Answer) Answer {
	w.Helper()
	got, err := w.renew(at, h, a)
	if err != nil || got.State != Held || got.Token != a.Token {
		w.Fatalf("renewed at %d: %+v, %v; want the lease %+v", at, got, err, a)
	}
	return got
}

// release releases at a server.
func (w *world) release(at int, h Handle, a Answer) {
	w.Helper()
	n := named(a)
	if got, err := w.servers[at].Release(w.Context(), calls(h), &n); err != nil || got.State != Released {
		w.Errorf("released at %d: %+v, %v", at, got, err)
	}
}

// free fails if a lock is held.
func (w *world) free(locks ...string) {
	w.Helper()
	synctest.Wait() // what is given back in the background
	for _, lock := range locks {
		if n := w.holders(lock); n > 0 {
			w.Errorf("%s is held by %d claims", lock, n)
		}
	}
}

// holders counts the claims that hold a lock.
func (w *world) holders(lock string) int {
	w.Helper()
	st, err := w.store.Inspect(w.Context(), lock)
	must.OK(w, err)
	return len(st.Holders)
}

// link is the way of one server to the store.
type link struct {
	driver.Store
	down atomic.Bool // no call gets to the store
	deaf atomic.Bool // no push comes from it
	slow atomic.Bool // no unlock is answered
}

func (l *link) err() error {
	if l.down.Load() {
		return driver.ErrUnavailable
	}
	return nil
}

func (l *link) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if err := l.err(); err != nil {
		return nil, driver.Renewal{}, err
	}
	s, r, err := l.Store.Open(ctx, req)
	return &linked{s, l}, r, err
}

func (l *link) Inspect(ctx context.Context, name string) (driver.Status, error) {
	if err := l.err(); err != nil {
		return driver.Status{}, err
	}
	return l.Store.Inspect(ctx, name)
}

func (l *link) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	if err := l.err(); err != nil {
		return 0, err
	}
	return l.Store.Break(ctx, name, token)
}

// linked is a session over a link.
type linked struct {
	driver.Session
	l *link
}

func (s *linked) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	if err := s.l.err(); err != nil {
		return driver.Renewal{}, err
	}
	return s.Session.KeepAlive(ctx)
}

func (s *linked) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := s.l.err(); err != nil {
		return driver.Outcome{}, err
	}
	return s.Session.Attempt(ctx, c)
}

func (s *linked) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if s.l.deaf.Load() {
		<-ctx.Done()
		return driver.Outcome{}, ctx.Err()
	}
	return s.Session.Await(ctx, c)
}

func (s *linked) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	if err := s.l.err(); err != nil {
		return driver.WasAbsent, err
	}
	if s.l.slow.Load() {
		<-ctx.Done()
		return driver.WasAbsent, driver.ErrUnknown
	}
	return s.Session.Withdraw(ctx, w)
}
