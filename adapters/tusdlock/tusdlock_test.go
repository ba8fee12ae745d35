// SPDX-License-Identifier: Apache-2.0

package tusdlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/tusdlock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// handlerLock and handlerLocker are handler.Lock and handler.Locker of tusd.
type handlerLock interface {
	Lock(ctx context.Context, requestUnlock func()) error
	Unlock() error
}

type handlerLocker interface {
	NewLock(id string) (handlerLock, error)
}

var _ handlerLocker = (*tusdlock.Locker[handlerLock])(nil)

var errLockTimeout = errors.New("ERR_LOCK_TIMEOUT")

// upload is the lock of an upload on one server.
func upload(t *testing.T, c *fencelock.Client, lost func(string, error)) handlerLock {
	t.Helper()
	k, err := tusdlock.New[handlerLock](c, errLockTimeout, &tusdlock.Options{OnLost: lost})
	must.OK(t, err)
	l, err := k.NewLock("upload")
	must.OK(t, err)
	return l
}

func none() { panic("asked to stop") }

// TestHolderIsAskedToStop: a request that waits for the lock asks its holder, on the same
// server and on another one.
func TestHolderIsAskedToStop(t *testing.T) {
	for name, tt := range map[string]struct{ same, silent bool }{
		"same server": {same: true}, "another server": {}, "a store that does not notify": {silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var store driver.Store = memstore.New(nil)
				if tt.silent {
					store = locktest.Caps(store, func(c *driver.Caps) { c.Contended = driver.NoNotice })
				}
				c := locktest.Client(t, store, nil)
				other := c
				if !tt.same {
					other = locktest.Client(t, store, nil)
				}
				patch, head := upload(t, c, nil), upload(t, other, nil)
				stop := make(chan struct{})
				must.OK(t, patch.Lock(t.Context(), func() { close(stop) }))
				time.Sleep(time.Minute)
				select {
				case <-stop:
					t.Error("asked to stop before another request waits")
				default:
				}
				go func() {
					<-stop
					if err := patch.Unlock(); err != nil {
						t.Error(err)
					}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				must.OK(t, head.Lock(ctx, none))
				if err := head.Unlock(); err != nil {
					t.Error(err)
				}
				locktest.Free(t, store, "tusd/upload")
				if err := head.Unlock(); err == nil || !strings.Contains(err.Error(), "not locked here") {
					t.Error(err)
				}
			})
		})
	}
}

// TestTimeoutIsThatOfTusd: the error must be the host's own, which it compares.
func TestTimeoutIsThatOfTusd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		patch, head := upload(t, c, nil), upload(t, c, nil)
		must.OK(t, patch.Lock(t.Context(), func() {}))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := head.Lock(ctx, none); err != errLockTimeout {
			t.Errorf("%v, want the error itself", err)
		}
		if err := patch.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// TestALossStopsTheRequest: it is reported, and the request is asked to stop.
func TestALossStopsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		var lost []string
		k := upload(t, c, func(id string, err error) {
			locktest.Is(t, err, fencelock.ErrLost)
			lost = append(lost, id)
		})
		stop := make(chan struct{})
		must.OK(t, k.Lock(t.Context(), func() { close(stop) }))
		st, err := c.Inspect(t.Context(), "tusd/upload")
		must.OK(t, err)
		if _, err := c.ForceUnlock(t.Context(), "tusd/upload", st.Holders[0].Token); err != nil {
			t.Fatal(err)
		}
		<-stop
		locktest.Is(t, k.Unlock(), fencelock.ErrLost)
		synctest.Wait()
		if len(lost) != 1 || lost[0] != "upload" {
			t.Errorf("lost %v", lost)
		}
	})
}

// TestNewRefuses what cannot work.
func TestNewRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		deaf := locktest.Client(t, locktest.Caps(memstore.New(nil), func(c *driver.Caps) { c.Contended, c.Queue = driver.NoNotice, false }), nil)
		_, none := tusdlock.New[handlerLock](c, nil, nil)
		_, never := tusdlock.New[handlerLock](deaf, errLockTimeout, nil)
		_, wrong := tusdlock.New[int](c, errLockTimeout, nil)
		for want, err := range map[string]error{"pass handler.ErrLockTimeout": none, "use another store": never, "write New[handler.Lock]": wrong} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
}
