// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// TestLingeringLockCostsFewCommands: a process that locks a name again and again asks the server
// only when it has used the tokens of a grant, which are 256. Its tokens rise, and another process
// gets the lock when it asks for it, before the lock has lingered for its time.
func TestLingeringLockCostsFewCommands(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := func() *fencelock.Client {
		store, err := redisstore.New(redis.NewClient(&redis.Options{Addr: server.Addr}), nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := fencelock.New(store, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(t.Context()) })
		return c
	}
	mine := open().Mutex("tenant/7", fencelock.Linger(10*time.Second))
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	turn := func() fencelock.Token {
		l, err := mine.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := l.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}()
		return l.Token()
	}
	last := turn()
	waitFor(t, "the subscription for notices", func() bool {
		channels, err := admin.PubSubChannels(t.Context(), "*").Result()
		return err == nil && len(channels) == 1 && strings.HasSuffix(channels[0], ":w")
	})
	before := sentTo(t, admin)
	const turns = 1000
	for range turns {
		token := turn()
		if token <= last {
			t.Fatalf("token %d after %d", token, last)
		}
		last = token
	}
	if n := sentTo(t, admin) - before; n > turns/40 {
		t.Errorf("%d turns took %d commands", turns, n)
	}
	l, err := open().Mutex("tenant/7").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if l.Token() <= last {
		t.Errorf("another process has token %d after %d", l.Token(), last)
	}
}

// TestNoticeOfAWaiterBeforeThePush: a claim that was queued is granted by a push when another
// claim is behind it already, in a session that listens since long ago.
func TestNoticeOfAWaiterBeforeThePush(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := func() *fencelock.Client {
		store, err := redisstore.New(redis.NewClient(&redis.Options{Addr: server.Addr}), nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := fencelock.New(store, &fencelock.Options{TTL: time.Minute}) // polls come too late to help
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(t.Context()) })
		return c
	}
	first, second, third := open(), open(), open()
	lock := func(c *fencelock.Client, name string, opts ...fencelock.LockOption) *fencelock.Lease {
		l, err := c.Mutex(name, opts...).Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		return l
	}
	lingering := fencelock.Linger(10 * time.Second)
	lock(second, "another", lingering)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	waitFor(t, "the subscription for notices", func() bool {
		channels, err := admin.PubSubChannels(t.Context(), "*:w").Result()
		return err == nil && len(channels) == 1
	})
	time.Sleep(50 * time.Millisecond) // the session knows of it, too; without that the test finds less
	held := lock(first, "x")
	waiting := func(n int) {
		waitFor(t, "claims in the queue", func() bool {
			st, err := first.Inspect(t.Context(), "x")
			return err == nil && st.Waiting == n
		})
	}
	got := make(chan *fencelock.Lease, 1)
	go func() { got <- lock(second, "x", lingering) }()
	waiting(1)
	last := make(chan *fencelock.Lease, 1)
	go func() { last <- lock(third, "x") }()
	waiting(2)
	if err := held.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := <-got
	select {
	case <-l.Wanted():
	case <-time.After(20 * time.Second):
		t.Error("the holder was not notified of a claim that was behind it when it was granted")
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	<-last
}

// sentTo counts the commands that change or read locks.
func sentTo(t *testing.T, admin *redis.Client) (n int64) {
	t.Helper()
	for _, line := range strings.Split(admin.Info(t.Context(), "commandstats").Val(), "\r\n") {
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		switch name {
		case "evalsha", "eval", "multi", "llen", "lrem":
			calls, _, _ := strings.Cut(strings.TrimPrefix(rest, "calls="), ",")
			count, err := strconv.ParseInt(calls, 10, 64)
			if err != nil {
				t.Fatal(line, err)
			}
			n += count
		}
	}
	return n
}
