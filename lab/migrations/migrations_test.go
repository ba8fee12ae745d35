// SPDX-License-Identifier: Apache-2.0

//go:build unix

package migrations

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

const patience = time.Minute // of the tests; machines are slow and shared

// a peer is an old lock, as an old process uses it, and the code that holds both.
type peer struct {
	// both does the work while holding both locks.
	both func(ctx context.Context, locks *fencelock.Client, name string, do work) error
	// try takes the old lock as a process of the old version, or returns nil.
	try func(t *testing.T, name string) (release func())
	// lose takes the old lock away from its holder; nil if nothing can.
	lose func(t *testing.T, name string)
}

// check runs the clauses of a rolling migration with this peer.
func check(t *testing.T, p *peer) {
	store := memstore.New(nil) // where fencelock keeps its own plays no part here
	us, others := client(t, store), client(t, store)
	t.Run("old excludes both, and both excludes old and new", func(t *testing.T) {
		release := p.try(t, "a")
		if release == nil {
			t.Fatal("the old lock is not free")
		}
		entered, leave, ended := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			ended <- p.both(t.Context(), us, "a", func(ctx context.Context, l *fencelock.Lease) error {
				close(entered)
				<-leave
				return context.Cause(ctx)
			})
		}()
		holdsOurs(t, others, "a")
		select {
		case <-entered:
			t.Fatal("the work began while an old process held the lock")
		default:
		}
		release()
		within(t, "the work to begin", entered)
		if p.try(t, "a") != nil {
			t.Error("an old process got the lock that is held with both")
		}
		if _, err := others.Mutex("a").TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
			t.Errorf("a new process got %v, want busy", err)
		}
		close(leave)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		release = p.try(t, "a")
		if release == nil {
			t.Fatal("the old lock was not given back")
		}
		release()
	})
	if p.lose == nil {
		return
	}
	t.Run("a lost old lock ends the work", func(t *testing.T) {
		err := p.both(t.Context(), us, "b", func(ctx context.Context, l *fencelock.Lease) error {
			p.lose(t, "b")
			within(t, "the context to end", ctx.Done())
			if l.Err() != nil {
				t.Errorf("fencelock's own lease ended: %v", l.Err())
			}
			return context.Cause(ctx)
		})
		if err == nil || t.Context().Err() != nil {
			t.Errorf("got %v, want that the old lock is lost", err)
		}
	})
}

func client(t *testing.T, store driver.Store) *fencelock.Client {
	t.Helper()
	c, err := fencelock.New(store, nil)
	must.OK(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // the store is gone with the test
	return c
}

// holdsOurs waits until a client holds fencelock's lock.
func holdsOurs(t *testing.T, c *fencelock.Client, name string) {
	t.Helper()
	for began := time.Now(); time.Since(began) < patience; {
		st, err := c.Inspect(t.Context(), name)
		must.OK(t, err)
		if len(st.Holders) > 0 {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Fatal("no client took fencelock's lock")
}

func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
	}
}

func TestFlock(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	check(t, &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			return withFlock(ctx, locks, file(name), name, do)
		},
		try: func(t *testing.T, name string) func() {
			f, err := os.OpenFile(file(name), os.O_RDWR|os.O_CREATE, 0o600)
			must.OK(t, err)
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
				_ = f.Close()
				return nil
			}
			return func() { _ = f.Close() }
		},
	})
}

func TestConsul(t *testing.T) {
	c := &fakeConsul{held: map[string]chan struct{}{}}
	check(t, &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			return withConsul(ctx, locks, &fakeLock{c, name}, name, do)
		},
		try: func(t *testing.T, name string) func() {
			if c.take(name) == nil {
				return nil
			}
			return func() { c.drop(name) }
		},
		lose: func(t *testing.T, name string) { c.drop(name) },
	})
}

// fakeConsul behaves as api.Lock is documented to; Consul itself is not run here.
type fakeConsul struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when lost
}

func (c *fakeConsul) take(name string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[name] != nil {
		return nil
	}
	c.held[name] = make(chan struct{})
	return c.held[name]
}

func (c *fakeConsul) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if lost := c.held[name]; lost != nil {
		close(lost)
		delete(c.held, name)
	}
}

type fakeLock struct {
	c    *fakeConsul
	name string
}

func (l *fakeLock) Lock(stop <-chan struct{}) (<-chan struct{}, error) {
	for {
		if lost := l.c.take(l.name); lost != nil {
			return lost, nil
		}
		select {
		case <-stop:
			return nil, nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (l *fakeLock) Unlock() error { l.c.drop(l.name); return nil }
