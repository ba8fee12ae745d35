// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
)

func TestReentryByContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(m)
		c := newClient(t, st, nil)
		outer := lock(t, c, "x")
		w := start(ctxb, c.Mutex("x"))
		calls := st.Total()
		var inner []*fencelock.Lease
		ctx := outer.Context()
		for range 5 {
			l, err := c.Mutex("x").Lock(ctx)
			must.OK(t, err)
			tried, err := c.Mutex("x").TryLock(ctx)
			must.OK(t, err)
			if l.Token() != outer.Token() || tried.Token() != outer.Token() {
				t.Errorf("tokens %v and %v; want %v", l.Token(), tried.Token(), outer.Token())
			}
			inner, ctx = append(inner, l, tried), l.Context()
		}
		if st.Total() != calls {
			t.Errorf("re-entering cost %d calls", st.Total()-calls)
		}
		unlock(t, outer) // in any order
		unlock(t, outer)
		for _, l := range inner {
			if w.over() {
				t.Fatal("the lock is free before the last unlock")
			}
			if !l.Valid() || isDone(l.Context()) {
				t.Fatalf("an inner lease ended early: %v", l.Err())
			}
			unlock(t, l)
		}
		unlock(t, w.wait(t, 0))
		wantClaims(t, m, "x", 0, 0)
	})
}

// Do nests, and what is lost is lost for all.
func TestReentryByDo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, m, nil)
		err := c.Do(ctxb, "x", func(ctx context.Context, outer *fencelock.Lease) error {
			return c.Do(ctx, "y", func(ctx context.Context, _ *fencelock.Lease) error {
				return c.Do(ctx, "x", func(ctx context.Context, l *fencelock.Lease) error {
					if l.Token() != outer.Token() || fencelock.FromContext(ctx, "x") != l {
						t.Error("not re-entered")
					}
					m.Reset()
					ended(t, ctx)
					wantIs(t, "cause", context.Cause(ctx), fencelock.ErrLost)
					return nil
				})
			})
		})
		wantIs(t, "Do", err, fencelock.ErrLost, fencelock.LossStoreReset)
	})
}

// A context outlives the lease it came with; the outer lease is still there.
func TestReentryUnderAReleasedInnerLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, m, nil)
		outer := lock(t, c, "x")
		inner, err := c.Mutex("x").Lock(outer.Context())
		must.OK(t, err)
		under := context.WithoutCancel(inner.Context())
		unlock(t, inner)
		l, err := c.Mutex("x").Lock(under)
		must.OK(t, err)
		if l.Token() != outer.Token() {
			t.Errorf("token %v; want %v of the outer lease", l.Token(), outer.Token())
		}
		unlock(t, outer)
		wantHolds(t, m, l)
	})
}

func TestNoReentryWithoutTheContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		l := lock(t, c, "x")
		_, err := c.Mutex("x").TryLock(ctxb)
		wantIs(t, "TryLock", err, fencelock.ErrBusy)
		_, err = c.Mutex("x").TryLock(lock(t, c, "y").Context())
		wantIs(t, "TryLock under another lease", err, fencelock.ErrBusy)
		w := start(ctxb, c.Mutex("x"))
		time.Sleep(10 * ttl)
		if w.over() {
			t.Fatal("the same client holds it twice")
		}
		unlock(t, l)
		w.wait(t, 0)
		// The context of a lease that is over is no way in either.
		_, err = c.Mutex("x").TryLock(l.Context())
		wantIs(t, "TryLock under a context that has ended", err, context.Canceled)
		_, err = c.Mutex("x").TryLock(context.WithoutCancel(l.Context()))
		wantIs(t, "TryLock under a released lease", err, fencelock.ErrBusy)
		unlock(t, w.wait(t, 0))
	})
}

// Another client under the same context is another process to the store.
func TestNoReentryIntoAnotherClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		l := lock(t, newClient(t, m, nil), "x")
		_, err := newClient(t, m, nil).Mutex("x").TryLock(l.Context())
		wantIs(t, "TryLock", err, fencelock.ErrBusy)
	})
}

func TestNoReentryIntoALostLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		a, b := newClient(t, bent(t, m, `during(1s, 1m, lose(request))`), nil), newClient(t, m, nil)
		l := lock(t, a, "x")
		under := context.WithoutCancel(l.Context())
		ended(t, l.Context())
		next := lock(t, b, "x")
		_, err := a.Mutex("x").Lock(l.Context())
		wantIs(t, "Lock under the lost context", err, context.Canceled, fencelock.ErrLost)
		_, err = a.Mutex("x").Lock(under)
		wantIs(t, "Lock under the lost lease", err, fencelock.ErrLost)
		_, err = a.Mutex("x").TryLock(under)
		wantIs(t, "TryLock under the lost lease", err, fencelock.ErrLost)
		wantHolds(t, m, next)
	})
	t.Run("says why", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m := newStore()
			c := newClient(t, m, nil)
			l := lock(t, c, "x")
			under := context.WithoutCancel(l.Context())
			if _, err := m.Break(ctxb, "x", l.Token()); err != nil {
				t.Fatal(err)
			}
			ended(t, l.Context())
			_, err := c.Mutex("x").Lock(under)
			wantIs(t, "Lock under the broken lease", err, fencelock.ErrLost, fencelock.LossForceUnlock)
		})
	})
	t.Run("unnoticed", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var n napper
			c := n.client(t, newStore())
			l := lock(t, c, "x")
			n.suspend(time.Hour)
			_, err := c.Mutex("x").Lock(l.Context())
			wantIs(t, "Lock under a lease past its deadline", err, fencelock.ErrLost)
		})
	})
}

// A permit is counted, so it is not re-entered: the reader would hold what is not counted.
func TestReaderDoesNotReenterAPermit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		permit, err := c.Semaphore("x", 2).Acquire(ctxb, 1)
		must.OK(t, err)
		reader, err := c.RWMutex("x").TryRLock(permit.Context())
		must.OK(t, err)
		if reader.Token() == permit.Token() {
			t.Error("a reader re-entered a permit")
		}
		unlock(t, reader)
		unlock(t, permit)
	})
}

func TestReentryByOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		a, b, c := newClient(t, m, nil), newClient(t, m, nil), newClient(t, m, nil)
		order := fencelock.ReentrantAs("order-42")
		l := lock(t, a, "x", order)
		again, there := lock(t, a, "x", order), lock(t, b, "x", order)
		if again.Token() != l.Token() || there.Token() != l.Token() {
			t.Errorf("tokens %v, %v and %v; want one", l.Token(), again.Token(), there.Token())
		}
		// An acquisition never waits for its own id, not even behind another waiter.
		w := start(ctxb, c.Mutex("x"))
		behind := lock(t, c, "x", order)
		tried, err := b.Mutex("x", order).TryLock(ctxb)
		must.OK(t, err)
		for _, other := range []fencelock.LockOption{fencelock.ReentrantAs("order-4"), fencelock.ReentrantAs("order-421"), fencelock.Reason("none")} {
			for _, client := range []*fencelock.Client{a, b, c} {
				_, err := client.Mutex("x", other).TryLock(ctxb)
				wantIs(t, "TryLock with another id", err, fencelock.ErrBusy)
			}
		}
		for _, held := range []*fencelock.Lease{l, again, there, behind, tried} {
			if w.over() {
				t.Fatal("free before the last unlock")
			}
			unlock(t, held)
		}
		unlock(t, w.wait(t, 0))
		wantClaims(t, m, "x", 0, 0)
	})
}
