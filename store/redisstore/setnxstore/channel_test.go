// SPDX-License-Identifier: Apache-2.0

package setnxstore_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
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
		must.OK(t, err)
		locks, err := fencelock.New(store, &fencelock.Options{TTL: long})
		must.OK(t, err)
		t.Cleanup(func() { _ = locks.Close(context.Background()); _ = store.Close(); _ = conn.Close() })
		return locks
	}
	a, b := client(), client()
	l, err := b.Mutex("opens its session").Lock(t.Context())
	must.OK(t, err)
	must.OK(t, l.Unlock(t.Context()))
	for name, free := range map[string]func(l *fencelock.Lease) error{
		"unlocked":   func(l *fencelock.Lease) error { return l.Unlock(t.Context()) },
		"by another": func(*fencelock.Lease) error { return publishAsSpring(server, "registry:by another") },
	} {
		l, err := a.Mutex(name).Lock(t.Context())
		must.OK(t, err)
		before := scriptsRun(t, server)
		got := make(chan error, 1)
		go func() {
			l, err := b.Mutex(name).Lock(t.Context())
			if err == nil {
				err = l.Unlock(t.Context())
			}
			got <- err
		}()
		// Its second attempt is the one after it has begun to listen. An earlier release would be found by that.
		must.OK(t, servers.Await("the waiter listens and finds the lock held", func() bool { return scriptsRun(t, server) >= before+2 }))
		must.OK(t, free(l))
		select {
		case err := <-got:
			must.OK(t, err)
		case <-time.After(20 * time.Second):
			t.Errorf("%s: the waiter was not woken", name)
		}
		_ = l.Unlock(t.Context())
	}
}

// scriptsRun counts the scripts that a server has run.
func scriptsRun(t *testing.T, server *redistest.Server) (n int) {
	t.Helper()
	stats, err := server.Do("INFO", "commandstats").Text()
	must.OK(t, err)
	_, stats, _ = strings.Cut(stats, "cmdstat_evalsha:calls=")
	n, err = strconv.Atoi(stats[:max(0, strings.Index(stats, ","))])
	must.OK(t, err)
	return n
}

// publishAsSpring frees a lock and publishes its key.
func publishAsSpring(server *redistest.Server, key string) error {
	if err := server.Do("UNLINK", key).Err(); err != nil {
		return err
	}
	return server.Do("PUBLISH", "registry-channel", key).Err()
}
