// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/core"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/testhook"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// With default options a session is trusted for trust after each send, calls
// may take callTimeout, and renewals are at most renewal apart. A suspend is
// noticed after suspendTick at the latest.
const (
	ttl         = fencelock.DefaultTTL
	trust       = ttl - ttl/100 - ttl/10
	callTimeout = ttl / 3
	renewal     = trust / 3
	suspendTick = 500 * time.Millisecond
)

var ctxb = context.Background()

// bubble runs fn in fake time. All it starts must end with it.
func bubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, fn)
}

// newStore returns an empty memory store.
func newStore() *memstore.Store { return memstore.New(nil) }

// newClient returns a client that is closed when the test ends.
func newClient(t *testing.T, store driver.Store, opts *fencelock.Options) *fencelock.Client {
	t.Helper()
	c, err := fencelock.New(store, opts)
	must.OK(t, err)
	closeLater(t, c)
	return c
}

func closeLater(t *testing.T, c *fencelock.Client) {
	t.Cleanup(func() {
		if err := c.Close(ctxb); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// newSuspendable is New on a machine that was suspended for as long as the function
// returns.
func newSuspendable(store driver.Store, opts *fencelock.Options, suspended func() time.Duration) (*fencelock.Client, error) {
	c, err := testhook.NewClient(store, opts, clock.New(suspended))
	if err != nil {
		return nil, err
	}
	return c.(*fencelock.Client), nil
}

// coreOf returns the machine of a client.
func coreOf(c *fencelock.Client) *core.Client { return testhook.CoreOf(c) }

// coreLease returns the state of a lease.
func coreLease(l *fencelock.Lease) *core.Lease {
	for state := range core.Leases(l.Context()) {
		return state
	}
	return nil
}

// bent returns the store bent by a fault, written as an expression.
func bent(t *testing.T, store driver.Store, fault string) *faultstore.Store {
	t.Helper()
	opts := &faultstore.Options{LateLimit: 5 * time.Minute}
	if m, ok := store.(*memstore.Store); ok {
		opts.Reset = func(bool) { m.Reset() }
		opts.Step = m.StepClock
	}
	s, err := faultstore.Wrap(store, faultstore.MustParse(fault), opts)
	must.OK(t, err)
	t.Cleanup(s.Wait)
	return s
}

// lock locks or fails the test. It waits a minute at most.
func lock(t *testing.T, c *fencelock.Client, name string, opts ...fencelock.LockOption) *fencelock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctxb, time.Minute)
	defer cancel()
	l, err := c.Mutex(name, opts...).Lock(ctx)
	if err != nil {
		t.Fatalf("Lock %q: %v", name, err)
	}
	return l
}

func unlock(t *testing.T, l *fencelock.Lease) {
	t.Helper()
	if err := l.Unlock(ctxb); err != nil {
		t.Fatalf("Unlock %q: %v", l.Name(), err)
	}
}

// acquisition is a Lock in flight, in its own goroutine.
type acquisition struct {
	done  chan struct{}
	lease *fencelock.Lease
	err   error
	at    time.Time // when it ended
}

// start begins an acquisition and returns when it has come to rest.
func start(ctx context.Context, m *fencelock.Mutex) *acquisition {
	a := &acquisition{done: make(chan struct{})}
	go func() {
		a.lease, a.err = m.Lock(ctx)
		a.at = time.Now()
		close(a.done)
	}()
	synctest.Wait()
	return a
}

// over reports whether the acquisition has ended.
func (a *acquisition) over() bool {
	synctest.Wait()
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// wait returns the lease, or fails the test if it takes longer than within.
func (a *acquisition) wait(t *testing.T, within time.Duration) *fencelock.Lease {
	t.Helper()
	if !a.over() {
		select {
		case <-a.done:
		case <-time.After(within):
			t.Fatalf("no answer after %v", within)
		}
	}
	if a.err != nil {
		t.Fatalf("Lock: %v", a.err)
	}
	return a.lease
}

// ended returns when the context ends, or fails the test after a while.
func ended(t *testing.T, ctx context.Context) time.Time {
	t.Helper()
	select {
	case <-ctx.Done():
		return time.Now()
	case <-time.After(10 * time.Minute):
		t.Fatal("the context has not ended after 10 minutes")
		return time.Time{}
	}
}

func isDone(ctx context.Context) bool {
	synctest.Wait()
	return ctx.Err() != nil
}

// wantIs fails the test unless err is all of the targets.
func wantIs(t *testing.T, what string, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%s: %v; want an error that is %q", what, err, target)
		}
	}
}

// wantNear compares two instants. The clock of the machine trembles by some µs.
func wantNear(t *testing.T, what string, got, want time.Time) {
	t.Helper()
	if d := got.Sub(want); d < -time.Millisecond || d > time.Millisecond {
		t.Errorf("%s: %v away from what it should be", what, d)
	}
}

// status asks the store itself, past all wrappers.
func status(t *testing.T, store driver.Store, name string) driver.Status {
	t.Helper()
	st, err := store.Inspect(ctxb, name)
	must.OK(t, err)
	return st
}

// wantClaims fails the test unless the store has so many holders and waiters.
func wantClaims(t *testing.T, store driver.Store, name string, holders, waiting int) {
	t.Helper()
	synctest.Wait()
	if st := status(t, store, name); len(st.Holders) != holders || st.Waiting != waiting {
		t.Fatalf("%q has %d holders and %d waiters; want %d and %d", name, len(st.Holders), st.Waiting, holders, waiting)
	}
}
