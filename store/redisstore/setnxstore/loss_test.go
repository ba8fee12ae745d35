// SPDX-License-Identifier: Apache-2.0

package setnxstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
	"github.com/redis/go-redis/v9"
)

// newClient returns a client of a server.
func newClient(t *testing.T, server *redistest.Server, hooks ...redis.Hook) *fencelock.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	for _, h := range hooks {
		client.AddHook(h)
	}
	store, err := setnxstore.New(client, nil)
	must.OK(t, err)
	locks, err := fencelock.New(store, &fencelock.Options{TTL: 10 * time.Second})
	must.OK(t, err)
	t.Cleanup(func() { _ = locks.Close(context.Background()) })
	return locks
}

// TestHolderIsNotifiedOfALostLock: the lock is free at once, and the next renewal finds out.
func TestHolderIsNotifiedOfALostLock(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(server *redistest.Server) error{
		"another program deletes the key": func(server *redistest.Server) error { return server.Do("DEL", "x").Err() },
		"the server restarts empty":       func(server *redistest.Server) error { return server.RedisServer.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			holder, next := newClient(t, server), newClient(t, server)
			held, err := holder.Mutex("x").Lock(t.Context())
			must.OK(t, err)
			must.OK(t, lose(server))
			l, err := next.Mutex("x").Lock(t.Context())
			must.OK(t, err)
			select {
			case <-held.Context().Done():
			case <-time.After(time.Minute):
				t.Fatal("the holder was not notified")
			}
			if err := context.Cause(held.Context()); !errors.Is(err, fencelock.ErrLost) {
				t.Errorf("the lease ended with %v", err)
			}
			if err := held.Unlock(t.Context()); !errors.Is(err, fencelock.ErrLost) {
				t.Errorf("Unlock of a lock that was lost: %v", err)
			}
			if n, err := server.Do("EXISTS", "x").Int(); err != nil || n != 1 {
				t.Errorf("the late Unlock removed the key of the next holder, %v", err)
			}
			must.OK(t, l.Err())
			must.OK(t, l.Unlock(t.Context()))
		})
	}
}

// TestLockStaysOverARestartWithItsData: the holder keeps the lock, and others are excluded.
func TestLockStaysOverARestartWithItsData(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder, next := newClient(t, server), newClient(t, server)
	held, err := holder.Mutex("x").Lock(t.Context())
	must.OK(t, err)
	must.OK(t, server.Reboot())
	if _, err := next.Mutex("x").TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
		t.Errorf("TryLock after a restart: %v", err)
	}
	must.OK(t, held.Err())
	must.OK(t, held.Unlock(t.Context()))
}

// TestLostRepliesLeaveOneLock: an attempt whose reply was lost is repeated, and the lock is its own. A wait that ends so takes
// the lock back.
func TestLostRepliesLeaveOneLock(t *testing.T) {
	t.Parallel()
	server, lossy := redistest.Start(t), &redistest.Loser{}
	locks := newClient(t, server, lossy)
	must.OK(t, locks.Do(t.Context(), "opens the session", func(context.Context, *fencelock.Lease) error { return nil }))
	for name, gives := range map[string]bool{"granted": false, "given up": true} {
		lossy.Lost.Store(0)
		lossy.On.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		type result struct {
			lease *fencelock.Lease
			err   error
		}
		got := make(chan result, 1)
		go func() { l, err := locks.Mutex(name).Lock(ctx); got <- result{l, err} }()
		must.OK(t, servers.Await("attempts are repeated", func() bool { return lossy.Lost.Load() > 3 }))
		if n, err := server.Do("EXISTS", name).Int(); err != nil || n != 1 {
			t.Errorf("%s: the lock was not taken, %v", name, err)
		}
		if gives {
			cancel()
		} else {
			lossy.On.Store(false)
		}
		select {
		case r := <-got:
			if gives && !errors.Is(r.err, context.Canceled) || !gives && r.err != nil {
				t.Fatalf("%s: Lock: %v", name, r.err)
			}
			if r.lease != nil {
				must.OK(t, r.lease.Unlock(t.Context()))
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: Lock did not return", name)
		}
		lossy.On.Store(false)
		must.OK(t, servers.Await("the lock is free", func() bool { n, err := server.Do("EXISTS", name).Int(); return err == nil && n == 0 }))
	}
}
