// SPDX-License-Identifier: Apache-2.0

package certmagiclock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/certmagiclock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// keyInfo is certmagic.KeyInfo.
type keyInfo struct{ Key string }

// storage is certmagic.Storage, with the optional interfaces that certmagic asks for.
type storage interface {
	certmagiclock.Inner[keyInfo]
	Lock(ctx context.Context, name string) error
	TryLock(ctx context.Context, name string) (bool, error)
	Unlock(ctx context.Context, name string) error
	RenewLockLease(ctx context.Context, name string, d time.Duration) error
}

// broken is a storage whose lock must not be used, and whose field must not be logged.
type broken struct {
	certmagiclock.Inner[keyInfo]
	Secret string
}

func (broken) Lock(context.Context, string) error                       { panic("the lock of the inner storage") }
func (broken) Unlock(context.Context, string) error                     { panic("the lock of the inner storage") }
func (broken) Stat(_ context.Context, key string) (keyInfo, error)      { return keyInfo{key}, nil }
func (broken) Load(_ context.Context, key string) (v []byte, err error) { return []byte(key), nil }

// TestStorageLocks: the locks are those of fencelock, the rest is that of the inner storage.
func TestStorageLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		replica := func() storage {
			return certmagiclock.New[keyInfo](broken{Secret: "s3cret"}, locktest.Client(t, store, nil), nil)
		}
		a, b := replica(), replica()
		if text := fmt.Sprint(a); strings.Contains(text, "s3cret") || text == "" {
			t.Errorf("logged as %q", text)
		}
		if info, err := a.Stat(t.Context(), "x"); info.Key != "x" || err != nil {
			t.Errorf("Stat: %v, %v", info, err)
		}
		must.OK(t, a.Lock(t.Context(), "issue_cert_x"))
		for name, s := range map[string]storage{"same process": a, "another process": b} {
			if got, err := s.TryLock(t.Context(), "issue_cert_x"); got || err != nil {
				t.Errorf("TryLock of a held lock in the %s: %v, %v", name, got, err)
			}
			short, cancel := context.WithTimeout(t.Context(), time.Minute)
			locktest.Is(t, s.Lock(short, "issue_cert_x"), context.DeadlineExceeded)
			cancel()
		}
		waits := locktest.Go(locktest.Err(func() error { return b.Lock(t.Context(), "issue_cert_x") }))
		synctest.Wait()
		if err := a.RenewLockLease(t.Context(), "issue_cert_x", time.Hour); err != nil {
			t.Errorf("renew what is held: %v", err)
		}
		if err := a.Unlock(t.Context(), "issue_cert_x"); err != nil {
			t.Error(err)
		}
		if _, err := waits.Wait(); err != nil {
			t.Errorf("the waiting replica: %v", err)
		}
		if err := b.Unlock(t.Context(), "issue_cert_x"); err != nil {
			t.Error(err)
		}
		if got, err := a.TryLock(t.Context(), "issue_cert_x"); !got || err != nil {
			t.Errorf("TryLock of a free lock: %v, %v", got, err)
		}
		if err := a.Unlock(t.Context(), "issue_cert_x"); err != nil {
			t.Error(err)
		}
		locktest.Free(t, store, "certmagic/issue_cert_x")
	})
}

// TestRenewAfterALoss: certmagic goes on under the lock, or fails while another has it.
func TestRenewAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost []string
		store := memstore.New(nil)
		k := certmagiclock.NewLocker(locktest.Client(t, locktest.Faulty(t, store, `on(keepalive, nth(2, cut(1m)))`), nil),
			&certmagiclock.Options{OnLost: func(name string, _ error) { lost = append(lost, name) }})
		must.OK(t, k.Lock(t.Context(), "a"))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		other := locktest.Got(t)(locktest.Client(t, store, nil).Mutex("certmagic/a").Lock(t.Context()))
		time.Sleep(2 * time.Minute) // the connection heals
		locktest.Is(t, k.RenewLockLease(t.Context(), "a", time.Hour), fencelock.ErrLost, fencelock.ErrBusy)
		locktest.Unlock(t, other)
		if err := k.RenewLockLease(t.Context(), "a", time.Hour); err != nil {
			t.Errorf("the lock is free: %v", err)
		}
		if err := k.Unlock(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		locktest.Free(t, store, "certmagic/a")
		if len(lost) != 1 || lost[0] != "a" {
			t.Errorf("lost %v", lost)
		}
		if err := k.RenewLockLease(t.Context(), "a", time.Hour); err == nil || errors.Is(err, fencelock.ErrLost) {
			t.Errorf("renew what is not locked: %v", err)
		}
	})
}
