// SPDX-License-Identifier: Apache-2.0

package redissonstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestWaiterIsWokenByTheMessageOfAnUnlock: a poll would come after minutes.
func TestWaiterIsWokenByTheMessageOfAnUnlock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := newClient(t, newStore(t, server, nil)), newClient(t, newStore(t, server, nil))
	for i := range 20 {
		held, err := a.Mutex("x").Lock(t.Context())
		must.OK(t, err)
		before := scripts(t, server)
		got := waiting(t, b.Mutex("x").Lock)
		if i%2 == 0 { // it waits; otherwise the unlock comes before, while or after it subscribes
			waits(t, server, before)
		}
		must.OK(t, held.Unlock(t.Context()))
		woken(t, got, 30*time.Second)
	}
}

// TestWaiterOfAKeptLockIsWokenInTime: a lock that is kept ends before the lease that the waiter has read.
func TestWaiterOfAKeptLockIsWokenInTime(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(*testing.T, *fencelock.Client, *fencelock.Lease) error{
		"unlock": func(t *testing.T, _ *fencelock.Client, l *fencelock.Lease) error { return l.Unlock(t.Context()) },
		"close":  func(t *testing.T, c *fencelock.Client, _ *fencelock.Lease) error { return c.Close(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			a, b := newClient(t, newStore(t, server, nil)), newClient(t, newStore(t, server, nil))
			held, err := a.Mutex("x", fencelock.MinHold(3*time.Second)).Lock(t.Context())
			must.OK(t, err)
			before := scripts(t, server)
			got := waiting(t, b.Mutex("x").Lock)
			waits(t, server, before+1) // one opens the session
			must.OK(t, free(t, a, held))
			woken(t, got, time.Minute)
		})
	}
}

// waiting locks and unlocks in the background.
func waiting(t *testing.T, lock func(context.Context) (*fencelock.Lease, error)) <-chan error {
	got := make(chan error, 1)
	go func() {
		l, err := lock(t.Context())
		if err == nil {
			err = l.Unlock(t.Context())
		}
		got <- err
	}()
	return got
}

// waits waits until a claim has been attempted again after it subscribed. before are the scripts
// that had been run before it came.
func waits(t *testing.T, server *redistest.Server, before int) {
	t.Helper()
	must.OK(t, servers.Await("the claim waits", func() bool { return scripts(t, server) >= before+2 }))
}

// woken waits for the end of waiting, for less than until the next poll.
func woken(t *testing.T, got <-chan error, patience time.Duration) {
	t.Helper()
	select {
	case err := <-got:
		must.OK(t, err)
	case <-time.After(patience):
		t.Fatal("the waiter was not woken")
	}
}
