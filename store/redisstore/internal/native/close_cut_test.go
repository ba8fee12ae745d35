// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// closeCutter ends a context when the server has answered a script with so many keys.
type closeCutter struct {
	recorder
	cancel context.CancelFunc
}

// ProcessHook implements redis.Hook.
func (c *closeCutter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := cmd.Args(); err == nil && strings.HasPrefix(cmd.Name(), "eval") && args[2].(int) > 100 {
			c.cancel()
		}
		return err
	}
}

// TestCloseThatIsCutShortIsSwept: a process gives its locks back in parts when it is closed. What the parts that did not come
// leave behind, another process removes, as it does after a process that died.
func TestCloseThatIsCutShortIsSwept(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, closing := redis.NewClient(&redis.Options{Addr: server.Addr}), redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	defer closing.Close()
	open := func(client *redis.Client, ttl time.Duration) driver.Session {
		store, err := newGoRedis(client, nil)
		must.OK(t, err)
		s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard(""), ID: driver.NewSessionID(), TTL: ttl})
		must.OK(t, err)
		return s
	}
	living, other := open(client, time.Minute), open(closing, time.Minute)
	const locks, tombstones = 300, 50
	for i := range locks {
		terms := driver.Terms{Weight: 1, Record: &driver.Record{}, Mode: driver.Mode(i % 2)}
		if _, err := other.Attempt(t.Context(), &driver.Claim{Seq: uint64(i + 1), Name: fmt.Sprint("held", i), Terms: &terms, Queue: true}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range tombstones {
		if _, err := other.Withdraw(t.Context(), driver.Withdrawal{Seq: uint64(locks + i + 1), Name: fmt.Sprint("left", i), Tombstone: true}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	closing.AddHook(&closeCutter{cancel: cancel})
	if err := other.Close(ctx); err == nil {
		t.Fatal("all parts were sent")
	}
	redistest.WaitFor(t, "what the process has left behind is gone", func() bool {
		if _, err := living.KeepAlive(t.Context()); err != nil {
			t.Fatal(err)
		}
		return swept(t, client, 3)
	})
}

// TestSessionThatIsKeptAliveTooLateIsSwept: its process knows that the session has ended, and opens another one. What the
// session held is removed, too.
func TestSessionThatIsKeptAliveTooLateIsSwept(t *testing.T) {
	t.Parallel()
	l := newLists(t)
	const ttl = 2 * time.Second
	l.open("ann", ttl)
	l.open("bob", time.Minute)
	l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	l.attempt("ann", 2, "y", driver.Terms{Mode: driver.Shared}, driver.Granted)
	var sent recorder
	l.plain.AddHook(&sent)
	redistest.WaitFor(t, "keep-alives are plain commands", func() bool {
		sent.take()
		l.keepAlive("ann")
		return strings.HasPrefix(strings.Join(sent.take(), ""), "zadd")
	})
	sent.before = sync.OnceFunc(func() { time.Sleep(ttl + ttl/2) })
	if _, err := l.on["ann"].KeepAlive(t.Context()); !errors.Is(err, driver.ErrGone) {
		t.Fatalf("a keep-alive that arrives after the end: %v", err)
	}
	redistest.WaitFor(t, "what the session held is gone", func() bool {
		l.keepAlive("bob")
		return slices.Equal(l.keys(), []string{"", ":s", ":t"}) && l.fields() == "[m sbob v]"
	})
}
