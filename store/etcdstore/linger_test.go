// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
)

// TestLingeringLockIsGivenBack: another process has a lock that lingers long before it has
// lingered, by Lock and by TryLock, and with a higher token.
func TestLingeringLockIsGivenBack(t *testing.T) {
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	open := func() *fencelock.Client {
		store, err := New(cluster.Connect(t), &Options{MaxTTL: time.Hour})
		must.OK(t, err)
		c, err := fencelock.New(store, &fencelock.Options{TTL: time.Minute})
		must.OK(t, err)
		t.Cleanup(func() { _ = c.Close(t.Context()) })
		return c
	}
	mine, other := open(), open()
	for name, try := range map[string]bool{"locked": false, "tried": true} {
		var last fencelock.Token
		for range 20 {
			l, err := mine.Mutex(name, fencelock.Linger(time.Minute)).Lock(t.Context())
			must.OK(t, err)
			last = l.Token()
			must.OK(t, l.Unlock(t.Context()))
		}
		acquire, began := other.Mutex(name).Lock, time.Now()
		if try {
			acquire = other.Mutex(name).TryLock
		}
		l, err := acquire(t.Context())
		for errors.Is(err, fencelock.ErrBusy) && time.Since(began) < time.Minute/2 {
			l, err = acquire(t.Context()) // the wait of a try is short for a machine under load
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if l.Token() <= last || time.Since(began) > time.Minute/2 {
			t.Errorf("%s: token %v after %v, in %v", name, l.Token(), last, time.Since(began))
		}
	}
}
