// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// acquiring is an acquisition of any kind under way.
func acquiring(ctx context.Context, acquire func(context.Context) (*fencelock.Lease, error)) *acquisition {
	a := &acquisition{done: make(chan struct{})}
	go func() {
		a.lease, a.err = acquire(ctx)
		a.at = time.Now()
		close(a.done)
	}()
	synctest.Wait()
	return a
}

// The client holds these locks, too, but not in its own queue: the goroutine that waits goes
// to the store, which may notify late or never.
func TestContendedOfEveryKindIsClosedByALocalWaiter(t *testing.T) {
	type acquire = func(context.Context) (*fencelock.Lease, error)
	stores := map[string]*memstore.Options{"at once": nil, "at renewal": {NoPush: true}, "never": {NoQueue: true}}
	kinds := map[string]func(c *fencelock.Client) (holder, waiter acquire){
		"reader and writer": func(c *fencelock.Client) (acquire, acquire) { return c.RWMutex("x").RLock, c.Mutex("x").Lock },
		"permits": func(c *fencelock.Client) (acquire, acquire) {
			all := func(ctx context.Context) (*fencelock.Lease, error) { return c.Semaphore("x", 2).Acquire(ctx, 2) }
			return all, all
		},
		"ReentrantAs and another": func(c *fencelock.Client) (acquire, acquire) {
			return c.Mutex("x", fencelock.ReentrantAs("id")).Lock, c.Mutex("x").Lock
		},
		"a mutex and ReentrantAs": func(c *fencelock.Client) (acquire, acquire) {
			return c.Mutex("x").Lock, c.Mutex("x", fencelock.ReentrantAs("id")).Lock
		},
	}
	for store, opts := range stores {
		for kind, of := range kinds {
			for _, before := range []bool{false, true} {
				t.Run(store+"/"+kind, func(t *testing.T) {
					bubble(t, func(t *testing.T) { wantedByALocalWaiter(t, opts, of, before) })
				})
			}
		}
	}
}

func wantedByALocalWaiter(t *testing.T, opts *memstore.Options,
	kind func(c *fencelock.Client) (holder, waiter func(context.Context) (*fencelock.Lease, error)), before bool) {
	c := newClient(t, memstore.New(opts), nil)
	hold, want := kind(c)
	l, err := hold(ctxb)
	must.OK(t, err)
	var wanted <-chan struct{}
	if !before {
		if wanted = l.Contended(); closed(wanted) {
			t.Fatal("Contended is closed before a goroutine waits")
		}
	}
	began := time.Now()
	next := acquiring(ctxb, want)
	if before {
		wanted = l.Contended()
	}
	if !closed(wanted) || time.Since(began) > time.Millisecond {
		t.Error("a goroutine of the client waits, and Contended is not closed at once")
	}
	unlock(t, l)
	got := next.wait(t, ttl)
	if closed(got.Contended()) {
		t.Error("the waiter got the lock, no other waits, and its Contended is closed")
	}
	unlock(t, got)
}

// Readers that are let in beside a reader do not wait for it.
func TestContendedIsNotClosedByAReaderThatIsLetIn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, memstore.New(&memstore.Options{NoPush: true}), nil)
		m := c.RWMutex("x")
		first, err := m.RLock(ctxb)
		must.OK(t, err)
		wanted := first.Contended()
		second := acquiring(ctxb, m.RLock).wait(t, 0)
		if closed(wanted) || closed(second.Contended()) {
			t.Error("two readers hold together, and Contended is closed")
		}
		unlock(t, first)
		unlock(t, second)
	})
}

// Readers that waited together hold together: none of them waits any more when the first
// has its lease, even if a hook delays the goroutine that lets the others in.
func TestContendedIsNotClosedForReadersThatWaitedTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{NoPush: true})
		handed, slow := 0, make(chan struct{})
		c := newClient(t, store, &fencelock.Options{Hooks: fencelock.Hooks{Event: func(e fencelock.Event) {
			if e.Kind == fencelock.LeaseHandedOff {
				if handed++; handed == 2 {
					<-slow
				}
			}
		}}})
		writer := lock(t, newClient(t, store, nil), "x")
		m := c.RWMutex("x")
		waiting := []*acquisition{acquiring(ctxb, m.RLock), acquiring(ctxb, m.RLock), acquiring(ctxb, m.RLock)}
		unlock(t, writer)
		second := waiting[1].wait(t, ttl)
		if waiting[0].over() || waiting[2].over() {
			t.Fatal("the hook delays no reader")
		}
		if closed(second.Contended()) {
			t.Error("no caller waits, and Contended is closed")
		}
		close(slow)
		for _, a := range waiting {
			unlock(t, a.wait(t, ttl))
		}
	})
}

// A wait for the end of a grace period is not a wait for the holder.
func TestContendedIsNotClosedByAWaitInTheGracePeriod(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memstore.New(&memstore.Options{Grace: true, MaxTTL: ttl, NoPush: true})
		c := newClient(t, store, nil)
		m := c.RWMutex("x")
		l, err := m.RLock(ctxb)
		must.OK(t, err)
		wanted := l.Contended()
		store.Reset()
		time.Sleep(renewal) // the lease is reclaimed
		next := acquiring(ctxb, m.RLock)
		if next.over() {
			t.Fatal("a reader got in during the grace period")
		}
		if closed(wanted) || closed(l.Contended()) {
			t.Error("a reader waits for the end of the grace period, and Contended is closed")
		}
		unlock(t, next.wait(t, 2*ttl))
		unlock(t, l)
	})
}

// What is kept of a wait ends with it.
func TestWaitThatIsGivenUpIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, memstore.New(&memstore.Options{NoQueue: true}), nil)
		l, err := c.RWMutex("x").RLock(ctxb)
		must.OK(t, err)
		ctx, cancel := context.WithCancel(ctxb)
		next := acquiring(ctx, c.Mutex("x").Lock)
		cancel()
		if !next.over() {
			t.Fatal("the wait goes on")
		}
		if closed(l.Contended()) {
			t.Error("the writer gave up before Contended was called, and it is closed")
		}
		unlock(t, l)
	})
}
