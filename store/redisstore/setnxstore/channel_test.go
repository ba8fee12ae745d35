// SPDX-License-Identifier: Apache-2.0

package setnxstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
	"github.com/redis/go-redis/v9"
)

// TestChannelWakesWaiters: an unlock publishes the key, and a waiter waits for the message about its
// own lock. A poll would come after minutes.
func TestChannelWakesWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := func() *fencelock.Client {
		conn := redis.NewClient(&redis.Options{Addr: server.Addr})
		store, err := setnxstore.New(conn, &setnxstore.Options{Key: "registry:%s", Channel: "registry-channel"})
		must(t, err)
		locks, err := fencelock.New(store, &fencelock.Options{TTL: long})
		must(t, err)
		t.Cleanup(func() { _ = locks.Close(context.Background()); _ = store.Close(); _ = conn.Close() })
		return locks
	}
	a, b := client(), client()
	listened := func() {
		t.Helper()
		must(t, servers.Await("the waiter listens", func() bool {
			got, err := server.Do("PUBSUB", "NUMSUB", "registry-channel").Slice()
			return err == nil && len(got) == 2 && fmt.Sprint(got[1]) == "1"
		}))
	}
	for name, free := range map[string]func(l *fencelock.Lease) error{
		"unlocked":   func(l *fencelock.Lease) error { return l.Unlock(t.Context()) },
		"by another": func(*fencelock.Lease) error { return publishAsSpring(server, "registry:by another") },
	} {
		l, err := a.Mutex(name).Lock(t.Context())
		must(t, err)
		got := make(chan error, 1)
		go func() {
			l, err := b.Mutex(name).Lock(t.Context())
			if err == nil {
				err = l.Unlock(t.Context())
			}
			got <- err
		}()
		listened()
		must(t, free(l))
		select {
		case err := <-got:
			must(t, err)
		case <-time.After(30 * time.Second):
			t.Errorf("%s: the waiter was not woken", name)
		}
		_ = l.Unlock(t.Context())
	}
}

// publishAsSpring frees a lock and publishes its key.
func publishAsSpring(server *redistest.Server, key string) error {
	if err := server.Do("UNLINK", key).Err(); err != nil {
		return err
	}
	return server.Do("PUBLISH", "registry-channel", key).Err()
}
