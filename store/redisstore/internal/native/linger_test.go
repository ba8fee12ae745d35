// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
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
		store, err := newGoRedis(redis.NewClient(&redis.Options{Addr: server.Addr}), nil)
		must.OK(t, err)
		c, err := fencelock.New(store, nil)
		must.OK(t, err)
		t.Cleanup(func() { _ = c.Close(t.Context()) })
		return c
	}
	mine := open().Mutex("tenant/7", fencelock.Linger(10*time.Second))
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	turn := func() fencelock.Token {
		l, err := mine.Lock(t.Context())
		must.OK(t, err)
		defer func() {
			must.OK(t, l.Unlock(t.Context()))
		}()
		return l.Token()
	}
	last := turn()
	redistest.WaitFor(t, "the subscription for notices", func() bool {
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
	must.OK(t, err)
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
		store, err := newGoRedis(redis.NewClient(&redis.Options{Addr: server.Addr}), nil)
		must.OK(t, err)
		c, err := fencelock.New(store, &fencelock.Options{TTL: time.Minute}) // polls come too late to help
		must.OK(t, err)
		t.Cleanup(func() { _ = c.Close(t.Context()) })
		return c
	}
	first, second, third := open(), open(), open()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lock := func(c *fencelock.Client, name string, opts ...fencelock.LockOption) *fencelock.Lease {
		l, err := c.Mutex(name, opts...).Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		return l
	}
	lingering := fencelock.Linger(10 * time.Second)
	lock(second, "another", lingering)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	redistest.WaitFor(t, "the subscription for notices", func() bool {
		channels, err := admin.PubSubChannels(t.Context(), "*:w").Result()
		return err == nil && len(channels) == 1
	})
	time.Sleep(50 * time.Millisecond) // the session knows of it, too; without that the test finds less
	held := lock(first, "x")
	waiting := func(n int) {
		redistest.WaitFor(t, "claims in the queue", func() bool {
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
	must.OK(t, held.Unlock(t.Context()))
	if l := <-got; l != nil {
		awaitContended(t, l)
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}
	<-last
}

// awaitContended waits for the notice that another claim waits for the lock.
func awaitContended(t *testing.T, l *fencelock.Lease) {
	t.Helper()
	select {
	case <-l.Contended():
	case <-time.After(20 * time.Second):
		t.Error("the holder was not notified of a claim that waits for its lock")
	}
}

// TestTurnsAfterARecallArePlain: a claim that waited for an idle lock does not make the name one
// that processes wait for. They take it in turn by plain commands, as without Linger.
func TestTurnsAfterARecallArePlain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	turn := func(c *fencelock.Client, name string, opts ...fencelock.LockOption) {
		l, err := c.Mutex(name, opts...).Lock(t.Context())
		if err == nil {
			err = l.Unlock(t.Context())
		}
		must.OK(t, err)
	}
	scripts := func() int64 { return calls(t, admin, "evalsha", "eval") }
	var pair [2]*fencelock.Client
	for i := range pair {
		store, err := newGoRedis(redis.NewClient(&redis.Options{Addr: server.Addr}), nil)
		must.OK(t, err)
		pair[i], err = fencelock.New(store, &fencelock.Options{TTL: time.Minute}) // no renewal is counted
		must.OK(t, err)
		t.Cleanup(func() { _ = pair[i].Close(t.Context()) })
		redistest.WaitFor(t, "plain commands", func() bool {
			before := scripts()
			turn(pair[i], "warm")
			return scripts() == before
		})
	}
	lingering := fencelock.Linger(10 * time.Second)
	for i := range 3 { // each of them is recalled once
		turn(pair[i%2], "x", lingering)
	}
	before := scripts()
	const turns = 12 // fewer than the name cools down for
	for i := range turns {
		turn(pair[i%2], "x", lingering)
	}
	if n := scripts() - before; n > turns/4 { // a recall may still be under way
		t.Errorf("%d turns after a recall took %d scripts", turns, n)
	}
}

// TestHolderThatGivesWayUnlocksOnce: an unlock of a lock that is known to be waited for hands it
// off by one script, without plain commands before.
func TestHolderThatGivesWayUnlocksOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	var pair [2]*fencelock.Client
	for i := range pair {
		store, err := newGoRedis(redis.NewClient(&redis.Options{Addr: server.Addr}), nil)
		must.OK(t, err)
		if pair[i], err = fencelock.New(store, nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pair[i].Close(t.Context()) })
	}
	redistest.WaitFor(t, "plain commands", func() bool {
		before := calls(t, admin, "lrem")
		l, err := pair[0].Mutex("warm").Lock(t.Context())
		if err == nil {
			err = l.Unlock(t.Context())
		}
		must.OK(t, err)
		return calls(t, admin, "lrem") > before
	})
	held, err := pair[0].Mutex("x", fencelock.Linger(10*time.Second)).Lock(t.Context())
	must.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := make(chan error, 1)
	go func() {
		_, err := pair[1].Mutex("x").Lock(ctx)
		next <- err
	}()
	awaitContended(t, held)
	before := calls(t, admin, "lrem")
	must.OK(t, held.Unlock(t.Context()))
	must.OK(t, <-next)
	if n := calls(t, admin, "lrem") - before; n > 0 {
		t.Errorf("the unlock sent %d plain commands first", n)
	}
}

// sentTo counts the commands that change or read locks.
func sentTo(t *testing.T, admin *redis.Client) int64 {
	t.Helper()
	return calls(t, admin, "evalsha", "eval", "multi", "llen", "lrem")
}

// calls counts the commands of some names.
func calls(t *testing.T, admin *redis.Client, names ...string) (n int64) {
	t.Helper()
	for _, line := range strings.Split(admin.Info(t.Context(), "commandstats").Val(), "\r\n") {
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if slices.Contains(names, name) {
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
