// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
)

// A try of another process finds a lock taken that no caller holds.
func TestLinger02TryLockOfAnotherProcess(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			store := newStore()
			c, other := newClient(t, store, nil), newClient(t, store, nil)
			last := idle(t, c, "x")
			l, err := other.Mutex("x").TryLock(ctxb)
			if err != nil {
				t.Fatalf("TryLock of an idle lock: %v", err)
			}
			if l.Token() <= last {
				t.Errorf("token %v after %v", l.Token(), last)
			}
			unlock(t, l)
		})
	})
	t.Run("in use", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			store := newStore()
			c, other := newClient(t, store, nil), newClient(t, store, nil)
			l := lock(t, c, "x", linger)
			wanted := l.Contended()
			began := time.Now()
			_, err := other.Mutex("x").TryLock(ctxb)
			wantIs(t, "TryLock", err, fencelock.ErrBusy)
			if waited := time.Since(began); waited > 100*time.Millisecond {
				t.Errorf("TryLock waited %v for a holder", waited)
			}
			wantClaims(t, store, "x", 1, 0)
			if !closed(wanted) {
				t.Error("TryLock waited, and Contended is not closed")
			}
			unlock(t, l)
			wantClaims(t, store, "x", 0, 0) // it was wanted
		})
	})
}

// A try does not wait for a lock that others wait for already.
func TestLinger02TryLockBehindAWaiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c, other, third := newClient(t, store, nil), newClient(t, store, nil), newClient(t, store, nil)
		l := lock(t, c, "x", linger)
		next := start(ctxb, other.Mutex("x"))
		began := time.Now()
		_, err := third.Mutex("x").TryLock(ctxb)
		wantIs(t, "TryLock", err, fencelock.ErrBusy)
		wantNear(t, "answer", time.Now(), began)
		unlock(t, l)
		unlock(t, next.wait(t, time.Second))
		wantClaims(t, store, "x", 0, 0)
	})
}

// The context of a try bounds its wait for an idle lock, too.
func TestLinger02TryLockWhoseContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c, other := newClient(t, store, nil), newClient(t, store, nil)
		l := lock(t, c, "x", linger)
		ctx, cancel := context.WithTimeout(ctxb, time.Millisecond)
		defer cancel()
		_, err := other.Mutex("x").TryLock(ctx)
		wantIs(t, "TryLock", err, fencelock.ErrBusy)
		wantClaims(t, store, "x", 1, 0)
		unlock(t, l)
	})
}
