// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// other is a library whose lock is a string.
type other struct {
	name string
	// try takes a lock for so long, and returns what gives it back.
	try func(ctx context.Context, client *redis.Client, name string, ttl time.Duration) (unlock func() error, err error)
}

var others = []other{
	{"redsync", func(ctx context.Context, client *redis.Client, name string, ttl time.Duration) (func() error, error) {
		m := redsync.New(goredis.NewPool(client)).NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1))
		return func() error {
			if ok, err := m.UnlockContext(ctx); !ok || err != nil {
				return errors.Join(errors.New("not unlocked"), err)
			}
			return nil
		}, m.LockContext(ctx)
	}},
	{"redislock", func(ctx context.Context, client *redis.Client, name string, ttl time.Duration) (func() error, error) {
		l, err := redislock.Obtain(ctx, client, name, ttl, nil)
		return func() error { return l.Release(ctx) }, err
	}},
}

// TestSetNX shares locks with libraries whose lock is a string.
func TestSetNX(t *testing.T) {
	t.Parallel()
	server := redisServer(t)
	for _, o := range others {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClient(&redis.Options{Addr: server.Addr})
			t.Cleanup(func() { _ = client.Close() })
			store, err := setnxstore.New(client, nil)
			must(t, err)
			locks, err := fencelock.New(store, &fencelock.Options{TTL: ttl})
			must(t, err)
			t.Cleanup(func() { _ = locks.Close(context.Background()) })
			t.Run("excluded by Go", func(t *testing.T) { excludedByGo(t, o, client, locks) })
			t.Run("excluded by the other", func(t *testing.T) { excludedByOther(t, o, client, locks) })
			t.Run("lost to the other", func(t *testing.T) { lostToOther(t, o, client, store) })
		})
	}
}

// excludedByGo: while Go renews, and after.
func excludedByGo(t *testing.T, o other, client *redis.Client, locks *fencelock.Client) {
	l, err := locks.Mutex(o.name + "/a").Lock(t.Context())
	must(t, err)
	last := ttl
	must(t, servers.Await("Go renews", func() bool {
		if _, err := o.try(t.Context(), client, o.name+"/a", time.Minute); err == nil {
			t.Error("it took the lock beside a Go holder")
		}
		left, err := client.PTTL(t.Context(), o.name+"/a").Result()
		renewed := err == nil && left > last
		last = left
		return renewed
	}))
	must(t, l.Err())
	must(t, l.Unlock(t.Context()))
	unlock, err := o.try(t.Context(), client, o.name+"/a", time.Minute)
	must(t, err)
	must(t, unlock())
}

// excludedByOther: until it unlocks, and until its lease has ended.
func excludedByOther(t *testing.T, o other, client *redis.Client, locks *fencelock.Client) {
	unlock, err := o.try(t.Context(), client, o.name+"/b", long)
	must(t, err)
	if _, err := locks.Mutex(o.name + "/b").TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
		t.Fatalf("TryLock beside it: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		l, err := locks.Mutex(o.name + "/b").Lock(t.Context())
		if err == nil {
			err = l.Unlock(t.Context())
		}
		got <- err
	}()
	must(t, unlock())
	must(t, await(t, "Lock in Go after its unlock", got))
	_, err = o.try(t.Context(), client, o.name+"/b", time.Second)
	must(t, err)
	l, err := locks.Mutex(o.name + "/b").Lock(t.Context()) // as if it had been killed
	must(t, err)
	must(t, l.Unlock(t.Context()))
}

// lostToOther: a Go process that did not renew neither keeps nor frees the lock of the other.
func lostToOther(t *testing.T, o other, client *redis.Client, store *setnxstore.Store) {
	name := o.name + "/c"
	ses, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard(name), ID: driver.NewSessionID(), TTL: time.Second})
	must(t, err)
	out, err := ses.Attempt(t.Context(), &driver.Claim{Seq: 1, Name: name, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
	must(t, err)
	if out.State != driver.Granted {
		t.Fatalf("the first attempt was %v", out.State)
	}
	var unlock func() error
	must(t, servers.Await("the other has the lock", func() bool {
		unlock, err = o.try(t.Context(), client, name, time.Minute)
		return err == nil
	}))
	if _, err := ses.KeepAlive(t.Context()); !errors.Is(err, driver.ErrGone) {
		t.Errorf("the renewal: %v", err)
	}
	if found, err := ses.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: name}); err != nil || found != driver.WasAbsent {
		t.Errorf("the withdrawal found it %v, %v", found, err)
	}
	must(t, unlock())
}
