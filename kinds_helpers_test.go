// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/faultstore"
)

// kindClient returns a client that stands for a process of its own, closed at
// the end of the test.
func kindClient(t *testing.T, store driver.Store, opts *fencelock.Options) *fencelock.Client {
	t.Helper()
	c, err := fencelock.New(store, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// kindContext returns a context that ends when the test does, and after hours of
// fake time: sessions renew themselves for ever, so in a bubble a call that
// waits for ever is no deadlock.
func kindContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// kindEnded waits until the context has ended.
func kindEnded(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(6 * time.Hour):
		t.Fatal("the context did not end")
	}
}

// kindOwner returns options that name the process in holder records.
func kindOwner(name string) *fencelock.Options { return &fencelock.Options{Owner: name} }

// kindFaulty wraps the store for one process.
func kindFaulty(t *testing.T, store driver.Store, fault string) driver.Store {
	t.Helper()
	s, err := faultstore.Wrap(store, faultstore.MustParse(fault), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Wait)
	return s
}

// kindGot is for calls that must succeed: kindGot(t)(mu.Lock(ctx)).
func kindGot(t *testing.T) func(*fencelock.Lease, error) *fencelock.Lease {
	return func(l *fencelock.Lease, err error) *fencelock.Lease {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// kindBusy is for tries that must find somebody in the way.
func kindBusy(t *testing.T) func(*fencelock.Lease, error) *fencelock.BusyError {
	return func(l *fencelock.Lease, err error) *fencelock.BusyError {
		t.Helper()
		var busy *fencelock.BusyError
		if l != nil || !errors.As(err, &busy) || !errors.Is(err, fencelock.ErrBusy) {
			t.Fatalf("got %v, %v; want a BusyError", l, err)
		}
		return busy
	}
}

// kindUnlock gives leases back and wants no complaint.
func kindUnlock(t *testing.T, leases ...*fencelock.Lease) {
	t.Helper()
	for _, l := range leases {
		if err := l.Unlock(context.Background()); err != nil {
			t.Errorf("unlock %q: %v", l.Name(), err)
		}
	}
}

// kindIs wants err to wrap every target.
func kindIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("got %v, want an error that wraps %v", err, target)
		}
	}
}

// kindStatus inspects a lock through the store.
func kindStatus(t *testing.T, store driver.Store, name string) driver.Status {
	t.Helper()
	st, err := store.Inspect(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// kindFree wants that the lock is neither held nor waited for, once whatever
// goes on in the background has been done.
func kindFree(t *testing.T, store driver.Store, name string) {
	t.Helper()
	synctest.Wait()
	if st := kindStatus(t, store, name); len(st.Holders) > 0 || st.Waiting > 0 {
		t.Errorf("%q is not free: %+v", name, st)
	}
}

// kindCall is a call on a goroutine of its own.
type kindCall[T any] struct {
	value T
	err   error
	done  chan struct{}
}

// kindGo starts a call and returns when it has come as far as it gets.
func kindGo[T any](f func() (T, error)) *kindCall[T] {
	c := &kindCall[T]{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.value, c.err = f()
	}()
	synctest.Wait()
	return c
}

// ended says whether it has returned, when nothing else can happen now.
func (c *kindCall[T]) ended() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// waits fails the test if the call has returned.
func (c *kindCall[T]) waits(t *testing.T, why string) {
	t.Helper()
	if c.ended() {
		t.Fatalf("%s: returned %v, %v; want it to wait", why, c.value, c.err)
	}
}

// now returns the value of a call that must have succeeded by now.
func (c *kindCall[T]) now(t *testing.T, why string) T {
	t.Helper()
	if !c.ended() {
		t.Fatalf("%s: still waits", why)
	}
	if c.err != nil {
		t.Fatalf("%s: %v", why, c.err)
	}
	return c.value
}

// wait returns the call's answer, however long it takes.
func (c *kindCall[T]) wait() (T, error) {
	<-c.done
	return c.value, c.err
}

// kindErr adapts a call that returns only an error.
func kindErr(f func() error) func() (struct{}, error) {
	return func() (struct{}, error) { return struct{}{}, f() }
}

// kindPanics runs f and returns what it panicked with, nil if it did not.
func kindPanics(f func()) (what any) {
	defer func() { what = recover() }()
	f()
	return nil
}

// kindCaps is a store that says something else about itself.
type kindCaps struct {
	driver.Store
	edit func(*driver.Caps)
}

func (s kindCaps) Caps() driver.Caps {
	c := s.Store.Caps()
	s.edit(&c)
	return c
}
