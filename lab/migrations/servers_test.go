// SPDX-License-Identifier: Apache-2.0

//go:build unix

package migrations

import (
	"context"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/go-redsync/redsync/v4"
	goredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// onRedis returns the address of a server and a client.
func onRedis(t *testing.T) (string, *redis.Client) {
	t.Helper()
	addr := servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start() }).Addr
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return addr, client
}

// deleted takes a lock away that is one key with the name of the lock.
func deleted(client *redis.Client) func(t *testing.T, name string) {
	return func(t *testing.T, name string) {
		if n, err := client.Del(t.Context(), name).Result(); n != 1 || err != nil {
			t.Fatalf("deleted %d keys, %v", n, err)
		}
	}
}

func TestRedsync(t *testing.T) {
	t.Parallel()
	_, client := onRedis(t)
	rs := redsync.New(goredis.NewPool(client))
	check(t, &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			return withRedsync(ctx, locks, rs, name, do)
		},
		try: func(t *testing.T, name string) func() {
			old := rs.NewMutex(name, redsync.WithExpiry(patience))
			if old.TryLockContext(t.Context()) != nil {
				return nil
			}
			return func() { _, _ = old.UnlockContext(t.Context()) } // the next step finds out
		},
		lose: deleted(client),
	})
}

func TestRedislock(t *testing.T) {
	t.Parallel()
	_, client := onRedis(t)
	locker := redislock.New(client)
	check(t, &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			return withRedislock(ctx, locks, locker, name, do)
		},
		try: func(t *testing.T, name string) func() {
			old, err := locker.Obtain(t.Context(), name, patience, nil)
			if err != nil {
				return nil
			}
			return func() { _ = old.Release(t.Context()) } // the next step finds out
		},
		lose: deleted(client),
	})
}

// TestRedisson: the old process is played by the commands that Redisson's scripts
// give; Redisson itself is not run here.
func TestRedisson(t *testing.T) {
	t.Parallel()
	_, client := onRedis(t)
	check(t, &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			return withRedisson(ctx, locks, client, name, do)
		},
		try: func(t *testing.T, name string) func() {
			got, err := takeRLock.Run(t.Context(), client, []string{name}, "9f0b…:31", patience.Milliseconds()).Bool()
			must.OK(t, err)
			if !got {
				return nil
			}
			return func() { client.Del(t.Context(), name) }
		},
		lose: deleted(client),
	})
}

// TestRedissonIsNotified: a waiting Redisson client is notified when the lock is released.
func TestRedissonIsNotified(t *testing.T) {
	t.Parallel()
	_, client := onRedis(t)
	sub := client.Subscribe(t.Context(), "redisson_lock__channel:{a}")
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	owner := "x:1"
	must.OK(t, takeRLock.Run(t.Context(), client, []string{"a"}, owner, 30_000).Err())
	must.OK(t, giveRLock.Run(t.Context(), client, []string{"a"}, owner, "redisson_lock__channel:{a}").Err())
	select {
	case m := <-sub.Channel():
		if m.Payload != "0" {
			t.Errorf("notified with %q, want 0", m.Payload)
		}
	case <-time.After(patience):
		t.Error("no waiter was notified")
	}
}

func TestRueidislock(t *testing.T) {
	t.Parallel()
	addr, client := onRedis(t)
	open := func() rueidislock.Locker {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{addr}}, KeyMajority: 1, TryNextAfter: 5 * time.Second})
		must.OK(t, err)
		t.Cleanup(l.Close)
		return l
	}
	ours, theirs := open(), open()
	check(t, &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			return withRueidislock(ctx, locks, ours, name, do)
		},
		try: func(t *testing.T, name string) func() {
			_, release, err := theirs.TryWithContext(t.Context(), name)
			if err != nil {
				return nil
			}
			return release
		},
		lose: func(t *testing.T, name string) { deleted(client)(t, "rueidislock:0:"+name) },
	})
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	addr := servers.Test(t, func() (*servers.EtcdCluster, error) { return servers.Etcd(1) }).Members[0].Addr
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	must.OK(t, err)
	defer client.Close()
	session := func() *concurrency.Session {
		s, err := concurrency.NewSession(client, concurrency.WithTTL(15))
		must.OK(t, err)
		return s
	}
	ours, theirs := session(), session()
	check(t, &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			return withEtcd(ctx, locks, ours, name, do)
		},
		try: func(t *testing.T, name string) func() {
			old := concurrency.NewMutex(theirs, "/locks/"+name)
			if old.TryLock(t.Context()) != nil {
				return nil
			}
			return func() { _ = old.Unlock(t.Context()) } // the next step finds out
		},
		lose: func(t *testing.T, _ string) {
			if _, err := client.Revoke(t.Context(), ours.Lease()); err != nil {
				t.Fatal(err)
			}
		},
	})
}
