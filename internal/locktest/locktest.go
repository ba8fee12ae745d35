// SPDX-License-Identifier: Apache-2.0

// Package locktest has what tests of the API and of the core share: clients on stores in
// memory, calls on their own goroutine, collected events. Most of it is for use in
// testing/synctest bubbles.
package locktest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/faultstore"
)

// Client returns a client that stands for another process, closed at
// the end of the test.
func Client(t *testing.T, store driver.Store, opts *fencelock.Options) *fencelock.Client {
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

// Context returns a context that ends when the test does, and after hours of
// fake time: sessions renew themselves forever, so in a bubble a call that
// waits forever is not a deadlock.
func Context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// Ended waits until the context has ended.
func Ended(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(6 * time.Hour):
		t.Fatal("the context did not end")
	}
}

// Owner returns options that name the process in holder records.
func Owner(name string) *fencelock.Options { return &fencelock.Options{Owner: name} }

// Faulty wraps the store for one process.
func Faulty(t *testing.T, store driver.Store, fault string) driver.Store {
	t.Helper()
	s, err := faultstore.Wrap(store, faultstore.MustParse(fault), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Wait)
	return s
}

// Got is for calls that must succeed: Got(t)(mu.Lock(ctx)).
func Got(t *testing.T) func(*fencelock.Lease, error) *fencelock.Lease {
	return func(l *fencelock.Lease, err error) *fencelock.Lease {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// Busy is for tries that must find the lock taken.
func Busy(t *testing.T) func(*fencelock.Lease, error) *fencelock.BusyError {
	return func(l *fencelock.Lease, err error) *fencelock.BusyError {
		t.Helper()
		var busy *fencelock.BusyError
		if l != nil || !errors.As(err, &busy) || !errors.Is(err, fencelock.ErrBusy) {
			t.Fatalf("got %v, %v; want a BusyError", l, err)
		}
		return busy
	}
}

// Unlock gives leases back and wants no error.
func Unlock(t *testing.T, leases ...*fencelock.Lease) {
	t.Helper()
	for _, l := range leases {
		if err := l.Unlock(context.Background()); err != nil {
			t.Errorf("unlock %q: %v", l.Name(), err)
		}
	}
}

// Is wants err to wrap every target.
func Is(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("got %v, want an error that wraps %v", err, target)
		}
	}
}

// Status inspects a lock through the store.
func Status(t *testing.T, store driver.Store, name string) driver.Status {
	t.Helper()
	st, err := store.Inspect(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// Free wants that the lock is neither held nor waited for, once whatever
// goes on in the background has been done.
func Free(t *testing.T, store driver.Store, name string) {
	t.Helper()
	synctest.Wait()
	if st := Status(t, store, name); len(st.Holders) > 0 || st.Waiting > 0 {
		t.Errorf("%q is not free: %+v", name, st)
	}
}

// Call is a call on its own goroutine.
type Call[T any] struct {
	value T
	err   error
	done  chan struct{}
}

// Go starts a call and returns when it has come as far as it gets.
func Go[T any](f func() (T, error)) *Call[T] {
	c := &Call[T]{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.value, c.err = f()
	}()
	synctest.Wait()
	return c
}

// Ended reports whether it has returned, when nothing else can happen now.
func (c *Call[T]) Ended() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Waits fails the test if the call has returned.
func (c *Call[T]) Waits(t *testing.T, why string) {
	t.Helper()
	if c.Ended() {
		t.Fatalf("%s: returned %v, %v; want it to wait", why, c.value, c.err)
	}
}

// Now returns the value of a call that must have succeeded by now.
func (c *Call[T]) Now(t *testing.T, why string) T {
	t.Helper()
	if !c.Ended() {
		t.Fatalf("%s: still waits", why)
	}
	if c.err != nil {
		t.Fatalf("%s: %v", why, c.err)
	}
	return c.value
}

// Wait returns the call's answer, however long it takes.
func (c *Call[T]) Wait() (T, error) {
	<-c.done
	return c.value, c.err
}

// Err adapts a call that returns only an error.
func Err(f func() error) func() (struct{}, error) {
	return func() (struct{}, error) { return struct{}{}, f() }
}

// Panics runs f and returns what it panicked with, nil if it did not.
func Panics(f func()) (what any) {
	defer func() { what = recover() }()
	f()
	return nil
}

// Caps returns the store with other capabilities.
func Caps(store driver.Store, edit func(*driver.Caps)) driver.Store { return editedCaps{store, edit} }

type editedCaps struct {
	driver.Store
	edit func(*driver.Caps)
}

// Caps implements driver.Store.
func (s editedCaps) Caps() driver.Caps {
	c := s.Store.Caps()
	s.edit(&c)
	return c
}

// Tick runs an occurrence and wants a result.
func Tick(t *testing.T, o *fencelock.Once, occurrence string, want string, fn func(context.Context, *fencelock.Lease) error) fencelock.OnceResult {
	t.Helper()
	res, err := o.Do(Context(t), occurrence, fn)
	if err != nil || res.String() != want {
		t.Fatalf("%s: got %q, %v; want %q", occurrence, res, err, want)
	}
	return res
}

// Nothing is work that succeeds at once.
func Nothing(context.Context, *fencelock.Lease) error { return nil }

// Events collects events as lines: kind, lock, token.
type Events struct {
	mu   sync.Mutex
	seen []fencelock.Event
}

// Hooks collects the events of a client.
func (e *Events) Hooks() fencelock.Hooks {
	return fencelock.Hooks{Event: func(ev fencelock.Event) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.seen = append(e.seen, ev)
	}}
}

// All returns the events since the last Take.
func (e *Events) All() []fencelock.Event {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.seen)
}

// Take returns what has happened since the last take.
func (e *Events) Take() (lines []string) {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.seen {
		line := ev.Kind.String()
		if ev.Name != "" {
			line += " " + ev.Name
		}
		if ev.Token != 0 {
			line += " " + ev.Token.String()
		}
		if ev.Holder != nil {
			line += " held by " + ev.Holder.Record.Owner
		}
		lines = append(lines, line)
	}
	e.seen = nil
	return lines
}

// Want fails the test unless exactly these have happened since the last Take.
func (e *Events) Want(t *testing.T, want ...string) {
	t.Helper()
	if got := e.Take(); !slices.Equal(got, want) {
		t.Errorf("got events\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// Log returns a logger without times and what it wrote.
func Log(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	var buf bytes.Buffer
	return slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey:
			return slog.Attr{}
		case "waited", "held": // the clock counts suspends, to the nanosecond
			d := a.Value.Duration().Round(time.Millisecond)
			if d == 0 {
				return slog.Attr{}
			}
			return slog.Duration(a.Key, d)
		}
		return a
	}})), &buf
}

// Open returns a client whose Close may fail.
func Open(t *testing.T, store driver.Store) *fencelock.Client {
	t.Helper()
	c, err := fencelock.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}
