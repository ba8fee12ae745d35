// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

// lingering is what most tests linger for.
const lingering = time.Second

var linger = fencelock.Linger(lingering)

// idle locks and unlocks, so that the lock lingers.
func idle(t *testing.T, c *fencelock.Client, name string) fencelock.Token {
	t.Helper()
	l := lock(t, c, name, linger)
	unlock(t, l)
	return l.Token()
}

func TestLingerLocksAgainWithoutARoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		c, other := newClient(t, st, nil), newClient(t, st, nil)
		last := idle(t, c, "x")
		calls := st.Total()
		for range 20 {
			token := idle(t, c, "x")
			l, err := c.Mutex("x", linger).TryLock(ctxb)
			must.OK(t, err)
			if token <= last || l.Token() <= token {
				t.Fatalf("tokens %v, %v, %v do not rise", last, token, l.Token())
			}
			last = l.Token()
			unlock(t, l)
		}
		if n := st.Total(); n != calls {
			t.Errorf("%d calls for locks that lingered", n-calls)
		}
		l := lock(t, other, "x")
		if l.Token() <= last {
			t.Errorf("another process has token %v, not above %v", l.Token(), last)
		}
		unlock(t, l)
	})
}

// Locks without a round trip and recalls have events.
func TestLingerHasEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, opts := newStore(), &fencelock.Options{}
		var mu sync.Mutex
		var kinds []fencelock.EventKind
		opts.Hooks.Event = func(e fencelock.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Name == "x" {
				kinds = append(kinds, e.Kind)
			}
		}
		// The clock of the client still shows zero, without the noise of the machine's.
		c, err := newSuspendable(store, opts, func() time.Duration { return 0 })
		must.OK(t, err)
		closeLater(t, c)
		other := newClient(t, store, nil)
		idle(t, c, "x")
		idle(t, c, "x")
		unlock(t, lock(t, other, "x"))
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		want := []fencelock.EventKind{fencelock.LeaseGranted, fencelock.LeaseReleased, fencelock.LeaseHandedOff, fencelock.LeaseReleased, fencelock.LeaseRecalled}
		if !slices.Equal(kinds, want) {
			t.Errorf("events %v; want %v", kinds, want)
		}
	})
}

// A waiter of another process has the lock after one more handoff, not after the
// lingering.
func TestLingerIsRecalledByAWaiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c, other := newClient(t, store, nil), newClient(t, store, nil)
		idle(t, c, "x")
		began := time.Now()
		l := lock(t, other, "x", linger)
		wantNear(t, "granted", time.Now(), began)
		// In use it is not recalled, but it does not linger again.
		back := start(ctxb, c.Mutex("x", linger))
		time.Sleep(5 * lingering)
		if back.over() {
			t.Fatal("a lock in use was recalled")
		}
		unlock(t, l)
		began = time.Now()
		unlock(t, back.wait(t, lingering))
		wantNear(t, "granted", time.Now(), began)
		time.Sleep(lingering + time.Millisecond)
		wantClaims(t, store, "x", 0, 0)
	})
}

// The process itself asks for the lock with other terms: the idle grant is in its way.
func TestLingerGivesWayToOtherTerms(t *testing.T) {
	for name, acquire := range map[string]func(*fencelock.Client) (*fencelock.Lease, error){
		"no linger": func(c *fencelock.Client) (*fencelock.Lease, error) { return c.Mutex("x").Lock(ctxb) },
		"try":       func(c *fencelock.Client) (*fencelock.Lease, error) { return c.Mutex("x").TryLock(ctxb) },
		"reader":    func(c *fencelock.Client) (*fencelock.Lease, error) { return c.RWMutex("x").RLock(ctxb) },
		"try to read": func(c *fencelock.Client) (*fencelock.Lease, error) {
			return c.RWMutex("x").TryRLock(ctxb)
		},
		"re-entrant": func(c *fencelock.Client) (*fencelock.Lease, error) {
			return c.Mutex("x", fencelock.ReentrantAs("me")).Lock(ctxb)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := newStore()
				c := newClient(t, store, nil)
				last := idle(t, c, "x")
				began := time.Now()
				l, err := acquire(c)
				must.OK(t, err)
				wantNear(t, "granted", time.Now(), began)
				if l.Token() <= last {
					t.Errorf("token %v after %v", l.Token(), last)
				}
				unlock(t, l)
				wantClaims(t, store, "x", 0, 0)
			})
		})
	}
}

// Work under the old lease is notified, and its event is out, before the next holder has
// the lock.
func TestLingerCancelsTheContextFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		opts := &fencelock.Options{}
		var held context.Context
		var released, early atomic.Bool
		opts.Hooks.Event = func(e fencelock.Event) {
			switch e.Kind {
			case fencelock.LeaseReleased:
				time.Sleep(2 * time.Millisecond) // the next acquisition comes in between
				released.Store(true)
			case fencelock.LeaseHandedOff:
				early.Store(held.Err() == nil || !released.Load())
			}
		}
		c := newClient(t, newStore(), opts)
		l := lock(t, c, "x", linger)
		held = l.Context()
		next := make(chan *fencelock.Lease)
		go func() {
			time.Sleep(time.Millisecond)
			l, err := c.Mutex("x", linger).Lock(ctxb)
			if err != nil {
				t.Error(err)
			}
			next <- l
		}()
		unlock(t, l)
		got := <-next
		if early.Load() {
			t.Error("the lock was taken again before its holder was notified")
		}
		if got.Token() != l.Token()+1 {
			t.Errorf("token %v after %v; want the next of the same grant", got.Token(), l.Token())
		}
		unlock(t, got)
	})
}

func TestLingerEndsWithTheClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c, err := fencelock.New(store, nil)
		must.OK(t, err)
		idle(t, c, "x")
		wantClaims(t, store, "x", 1, 0)
		if err := c.Close(ctxb); err != nil {
			t.Error(err)
		}
		wantClaims(t, store, "x", 0, 0)
		_, err = c.Mutex("x", linger).Lock(ctxb)
		wantIs(t, "Lock", err, fencelock.ErrClosed)
	})
}

func TestLingerIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		for what, opts := range map[string][]fencelock.LockOption{
			"not positive":     {fencelock.Linger(0)},
			"beyond the TTL":   {fencelock.Linger(ttl + 1)},
			"with MinHold":     {linger, fencelock.MinHold(time.Second)},
			"with MaxHold":     {fencelock.MaxHold(time.Second), linger},
			"with ReentrantAs": {linger, fencelock.ReentrantAs("me")},
		} {
			if l, err := c.Mutex("x", opts...).TryLock(ctxb); err == nil {
				t.Errorf("%s: accepted", what)
				unlock(t, l)
			}
		}
		rw := c.RWMutex("x", linger)
		if _, err := rw.RLock(ctxb); err == nil {
			t.Error("a reader lingers")
		}
		if _, err := rw.Lock(ctxb); err == nil {
			t.Error("a writer can be locked with a handle whose readers cannot")
		}
		if _, err := c.Semaphore("s", 2, linger).Acquire(ctxb, 1); err == nil {
			t.Error("a semaphore lingers")
		}
	})
}

// Without the option every unlock gives the lock back.
func TestLingerIsOffByDefault(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c := newClient(t, store, nil)
		unlock(t, lock(t, c, "x"))
		wantClaims(t, store, "x", 0, 0)
	})
}

// A panic of a hook leaves neither a lease that no caller has, nor an idle grant.
func TestPanicWhileLingeringLeavesNothingBehind(t *testing.T) {
	for kind, name := range map[fencelock.EventKind]string{fencelock.LeaseReleased: "released", fencelock.LeaseHandedOff: "locked again"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, opts, n := newStore(), &fencelock.Options{}, 0
				opts.Hooks.Event = func(e fencelock.Event) {
					if e.Kind == kind {
						if n++; n == 1 {
							panic("metrics")
						}
					}
				}
				c := newClient(t, store, opts)
				func() {
					defer func() { _ = recover() }()
					idle(t, c, "x")
					lock(t, c, "x", linger)
				}()
				wantClaims(t, store, "x", 0, 0)
				idle(t, c, "x")
				idle(t, c, "x")
			})
		})
	}
}

// A caller that comes while the hook of an unlock runs keeps the grant from becoming idle. A panic
// in what is done instead leaves neither a caller that hangs nor a grant.
func TestPanicOfAnUnlockThatDoesNotLingerAfterAll(t *testing.T) {
	for name, opts := range map[string][]fencelock.LockOption{"handed off": {linger}, "given back": nil} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, hooked, o := newStore(), &fencelock.Options{}, &once{}
				st := tap(store)
				hooked.Hooks.Event = func(e fencelock.Event) {
					switch e.Kind {
					case fencelock.LeaseReleased:
						time.Sleep(2 * time.Millisecond) // the next acquisition comes in between
					case fencelock.LeaseHandedOff:
						o.boom()
					}
				}
				st.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
					o.boom()
					return next(ctx, w)
				}
				c := newClient(t, st, hooked)
				l := lock(t, c, "x", linger)
				next := make(chan *fencelock.Lease, 1)
				ctx, cancel := context.WithCancel(ctxb)
				defer cancel() // of one that hangs
				go func() {
					time.Sleep(time.Millisecond)
					if l, err := c.Mutex("x", opts...).Lock(ctx); err == nil {
						next <- l
					}
				}()
				func() {
					defer func() { _ = recover() }()
					_ = l.Unlock(ctxb)
				}()
				select {
				case got := <-next:
					unlock(t, got)
				case <-time.After(ttl):
					t.Error("the next caller hangs")
				}
				time.Sleep(2 * lingering)
				wantClaims(t, store, "x", 0, 0)
			})
		})
	}
}

// A goroutine of the same client that waits gets the lock by a local handoff.
func TestLingerWithLocalWaiters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		c := newClient(t, st, nil)
		l := lock(t, c, "x", linger)
		next := start(ctxb, c.Mutex("x", linger))
		unlock(t, l)
		got := next.wait(t, time.Second)
		unlock(t, got)
		last := idle(t, c, "x")
		if got.Token() != l.Token()+1 || last != got.Token()+1 {
			t.Errorf("tokens %v, %v, %v; want one after the other", l.Token(), got.Token(), last)
		}
		if n := len(st.Sent(faultstore.Attempt)); n != 1 {
			t.Errorf("%d attempts; want one", n)
		}
	})
}

// Contended of a lease that may linger is closed without another call.
func TestContendedOfALeaseThatMayLinger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		c, other := newClient(t, st, nil), newClient(t, st, nil)
		l := lock(t, c, "x", linger)
		wanted, calls := l.Contended(), st.Total()
		synctest.Wait()
		if st.Total() != calls {
			t.Error("Contended of a lease that may linger made a call")
		}
		next := start(ctxb, other.Mutex("x"))
		if !closed(wanted) {
			t.Error("another process waits, and Contended is not closed")
		}
		unlock(t, l)
		unlock(t, next.wait(t, time.Second))
	})
}

// Notices of claims that were never granted are not kept.
func TestGivenUpLingerKeepsNoWatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c, other := newClient(t, store, nil), newClient(t, store, nil)
		l := lock(t, other, "x")
		for i := range 3 {
			if _, err := c.Mutex("x", linger).TryLock(ctxb); err == nil {
				t.Fatal("granted beside the holder")
			}
			ctx, cancel := context.WithTimeout(ctxb, time.Second)
			if _, err := c.Mutex("x", linger).Lock(ctx); err == nil {
				t.Fatal(fmt.Sprint("granted beside the holder, ", i))
			}
			cancel()
		}
		synctest.Wait()
		if n := coreOf(c).Watches(); n != 0 {
			t.Errorf("%d watches are kept", n)
		}
		unlock(t, l)
	})
}
