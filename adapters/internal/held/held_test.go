// SPDX-License-Identifier: Apache-2.0

package held_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/internal/held"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestUnlockByNameSparesTheNextHolder: work that lost its lock unlocks it by name while other
// work of the same process holds it again.
func TestUnlockByNameSparesTheNextHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		var lost []string
		h := held.New("host/", func(name string, err error) {
			locktest.Is(t, err, fencelock.ErrLost)
			lost = append(lost, name)
		})
		first := locktest.Got(t)(c.Mutex(h.Lock("a"), fencelock.MaxHold(time.Second)).Lock(t.Context()))
		h.Add("a", first)
		never := func() (*fencelock.Lease, error) { t.Error("acquired again"); return nil, nil }
		busy := func() (*fencelock.Lease, error) { return c.Mutex(h.Lock("a")).TryLock(context.Background()) }
		if err := h.Renew(t.Context(), "a", never); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		second := locktest.Got(t)(c.Mutex(h.Lock("a")).Lock(t.Context()))
		h.Add("a", second)
		locktest.Is(t, h.Renew(t.Context(), "a", busy), fencelock.ErrLost, fencelock.ErrBusy)
		locktest.Is(t, h.Unlock(t.Context(), "a"), fencelock.ErrLost)
		if err := h.Renew(t.Context(), "a", never); second.Err() != nil || err != nil {
			t.Errorf("the second lease: %v, %v; want it held", second.Err(), err)
		}
		if err := h.Unlock(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		for op, err := range map[string]error{"unlock": h.Unlock(t.Context(), "a"), "renew": h.Renew(t.Context(), "a", never)} {
			if err == nil || !strings.Contains(err.Error(), op+` "host/a"`) || !strings.Contains(err.Error(), "not locked here") {
				t.Errorf("%s of what is not locked: %v", op, err)
			}
		}
		locktest.Free(t, store, "host/a")
		if len(lost) != 1 || lost[0] != "a" {
			t.Errorf("reported as lost: %v, want a once, and not what was unlocked", lost)
		}
	})
}

// TestRenewAcquiresAgain: work that goes on after a loss has a lease again, which its unlock
// gives back.
func TestRenewAcquiresAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		h := held.New("", func(string, error) {})
		h.Add("a", locktest.Got(t)(c.Mutex("a", fencelock.MaxHold(time.Second)).Lock(t.Context())))
		time.Sleep(2 * time.Second)
		again := func() (*fencelock.Lease, error) { return c.Mutex("a").TryLock(t.Context()) }
		must.OK(t, h.Renew(t.Context(), "a", again))
		if st := locktest.Status(t, store, "a"); len(st.Holders) != 1 {
			t.Errorf("held by %v", st.Holders)
		}
		if err := h.Unlock(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		locktest.Free(t, store, "a")
	})
}

// TestRenewTwiceAtOnceAcquiresOnce: the second finds the lock busy, and it is this process
// that holds it.
func TestRenewTwiceAtOnceAcquiresOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		h := held.New("", func(string, error) {})
		h.Add("a", locktest.Got(t)(c.Mutex("a", fencelock.MaxHold(time.Second)).Lock(t.Context())))
		time.Sleep(2 * time.Second)
		acquired, slow := 0, make(chan struct{})
		again := func() (*fencelock.Lease, error) {
			l, err := c.Mutex("a").TryLock(t.Context())
			acquired++
			<-slow // the caller has not kept it yet
			return l, err
		}
		renew := func(ctx context.Context) *locktest.Call[struct{}] {
			call := locktest.Go(func() (struct{}, error) { return struct{}{}, h.Renew(ctx, "a", again) })
			synctest.Wait()
			return call
		}
		first, second := renew(t.Context()), renew(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := renew(ctx).Wait()
		locktest.Is(t, err, fencelock.ErrLost, context.DeadlineExceeded)
		close(slow)
		for _, call := range []*locktest.Call[struct{}]{first, second} {
			if _, err := call.Wait(); err != nil {
				t.Error(err)
			}
		}
		if acquired != 1 {
			t.Errorf("acquired %d times", acquired)
		}
		if err := h.Unlock(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		locktest.Free(t, store, "a")
	})
}

// TestRenewThatAnUnlockOvertakesHoldsNothing: the work ends while its lost lease is acquired
// again.
func TestRenewThatAnUnlockOvertakesHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		h := held.New("", func(string, error) {})
		h.Add("a", locktest.Got(t)(c.Mutex("a", fencelock.MaxHold(time.Second)).Lock(t.Context())))
		time.Sleep(2 * time.Second)
		err := h.Renew(t.Context(), "a", func() (*fencelock.Lease, error) {
			locktest.Is(t, h.Unlock(t.Context(), "a"), fencelock.ErrLost)
			return c.Mutex("a").TryLock(t.Context())
		})
		locktest.Is(t, err, fencelock.ErrLost)
		locktest.Free(t, store, "a")
	})
}

// TestUnconfirmedUnlockIsNoFailure: the store does not answer, and the unlock is repeated.
func TestUnconfirmedUnlockIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, locktest.Faulty(t, store, `on(withdraw, nth(1, refuse))`), nil)
		h := held.New("", func(string, error) { t.Error("reported as lost") })
		h.Add("a", locktest.Got(t)(c.Mutex("a").Lock(t.Context())))
		if err := h.Unlock(t.Context(), "a"); err != nil {
			t.Errorf("unlock: %v", err)
		}
		time.Sleep(time.Minute)
		locktest.Free(t, store, "a")
	})
}
