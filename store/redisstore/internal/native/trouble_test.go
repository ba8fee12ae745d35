// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// TestPasswordRotationKeepsLeases: the password of the server is replaced, and the client
// learns the new one a moment later. Until then keep-alives are rejected, and no lease is lost.
func TestPasswordRotationKeepsLeases(t *testing.T) {
	t.Parallel()
	server := redistest.Redis.Start(t, "--requirepass", "old")
	admin := redis.NewClient(&redis.Options{Addr: server.Addr, Password: "old", PoolSize: 1})
	defer admin.Close()
	var password atomic.Value
	password.Store("old")
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true,
		CredentialsProvider: func() (string, string) { return "default", password.Load().(string) }})
	defer client.Close()
	store, err := newGoRedis(client, nil)
	must.OK(t, err)
	failed := make(chan error, 100)
	c, err := fencelock.New(store, &fencelock.Options{TTL: 6 * time.Second, Hooks: fencelock.Hooks{Event: func(e fencelock.Event) {
		if e.Kind == fencelock.SessionRenewalFailed {
			failed <- e.Err
		}
	}}})
	must.OK(t, err)
	defer c.Close(context.Background())
	held, err := c.Mutex("x").Lock(t.Context())
	must.OK(t, err)
	must.OK(t, admin.ConfigSet(t.Context(), "requirepass", "new").Err())
	must.OK(t, admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
	for range 2 { // the second is after a pause: the first was not the end
		select {
		case err := <-failed:
			t.Log(err)
		case <-held.Context().Done():
			t.Fatalf("the lease was lost: %v", held.Err())
		}
	}
	password.Store("new")
	if _, err := c.Mutex("y").Lock(t.Context()); err != nil {
		t.Error(err)
	}
	if err := held.Err(); err != nil || !held.Valid() {
		t.Errorf("the lease was lost: %v", err)
	}
}

// TestFullMemoryKeepsLeases: when the server's memory is full nothing new is granted, but
// holders keep their leases and can give them back, also to those who wait.
func TestFullMemoryKeepsLeases(t *testing.T) {
	everywhere(t, func(t *testing.T, flavor redistest.Flavor, lib library) {
		server := flavor.Start(t)
		store := lib.open(t, login{Addr: server.Addr}, nil).Store
		open := func() driver.Session {
			d, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard("x"), ID: driver.NewSessionID(), TTL: time.Minute})
			must.OK(t, err)
			return d
		}
		holder, next := open(), open()
		attempt := func(d driver.Session, seq uint64, name string) (driver.Outcome, error) {
			return d.Attempt(t.Context(), &driver.Claim{Seq: seq, Name: name, Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		}
		for _, name := range []string{"x", "y"} {
			if out, err := attempt(holder, uint64(len(name)+int(name[0])), name); err != nil || out.State != driver.Granted {
				t.Fatalf("got %v, %v", out.State, err)
			}
		}
		if out, err := attempt(next, 1, "x"); err != nil || out.State != driver.Queued {
			t.Fatalf("got %v, %v", out.State, err)
		}
		must.OK(t, server.Do("CONFIG", "SET", "maxmemory", "1").Err())
		if out, err := attempt(next, 2, "z"); err == nil {
			t.Errorf("a full server granted a new lock: %v", out.State)
		}
		for _, d := range []driver.Session{holder, next} {
			if _, err := d.KeepAlive(t.Context()); err != nil {
				t.Errorf("keep alive: %v", err)
			}
		}
		for _, name := range []string{"x", "y"} {
			found, err := holder.Withdraw(t.Context(), driver.Withdrawal{Seq: uint64(len(name) + int(name[0])), Name: name})
			if err != nil || found != driver.WasGranted {
				t.Errorf("withdraw %s: got %v, %v", name, found, err)
			}
		}
		if st, err := store.Inspect(t.Context(), "x"); err != nil || len(st.Holders) != 1 || st.Waiting != 0 {
			t.Errorf("x was not handed to the next: %+v, %v", st, err)
		}
		if _, err := next.Reclaim(t.Context(), nil, true); err != nil {
			t.Errorf("reclaim: %v", err)
		}
		if err := holder.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// TestDeadQueueIsWalkedInParts: thousands of claims of a process that died are queued before
// a claim that lives. No call removes all of them, and the claim that lives is granted without
// another attempt.
func TestDeadQueueIsWalkedInParts(t *testing.T) {
	t.Parallel()
	const dead, most = 4000, 2 * 256 // a call walks the queue twice
	l := newLayout(t)
	for _, who := range []string{"ann", "dead", "bob"} {
		l.open(who)
	}
	l.attempt("ann", 1, driver.Terms{}, driver.Granted)
	for seq := range uint64(dead) {
		l.attempt("dead", seq+1, driver.Terms{}, driver.Queued)
	}
	l.attempt("bob", 1, driver.Terms{}, driver.Queued)
	id := l.ids["dead"]
	l.must(l.plain.HDel(l.ctx, l.bucket, "s"+string(id[:])).Err())
	granted := make(chan error, 1)
	go func() {
		out, err := l.on["bob"].Await(l.ctx, &driver.Claim{Seq: 1, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		if err == nil && out.State != driver.Granted {
			err = fmt.Errorf("the claim is %v", out.State)
		}
		granted <- err
	}()
	redistest.WaitFor(t, "bob listens", func() bool {
		n, err := l.plain.PubSubNumPat(l.ctx).Result()
		channels, err2 := l.plain.PubSubChannels(l.ctx, "*").Result()
		return err == nil && err2 == nil && n+int64(len(channels)) > 0
	})
	l.must(l.plain.ConfigResetStat(l.ctx).Err())
	l.withdraw("ann", 1, false)
	l.must(<-granted)
	text, err := l.plain.Info(l.ctx, "commandstats").Result()
	l.must(err)
	calls := 0
	for _, m := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		calls += n
	}
	if calls < dead/most {
		t.Errorf("%d scripts removed %d claims, want at most %d each", calls, dead, most)
	}
}

// TestFloorOfATombstonedClaim: an attempt with a floor raises the counter of its name even if
// the claim was tombstoned (T6).
func TestFloorOfATombstonedClaim(t *testing.T) {
	t.Parallel()
	l := newLayout(t)
	l.open("ann")
	first := l.attempt("ann", 1, driver.Terms{}, driver.Granted)
	l.withdraw("ann", 1, false)
	l.withdraw("ann", 2, true)
	claim := &driver.Claim{Seq: 2, Name: "x", Floor: first + 1000*driver.TokenStep, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
	if out, err := l.on["ann"].Attempt(l.ctx, claim); err != nil || out.State != driver.Absent {
		t.Fatalf("a tombstoned claim is %v, %v", out.State, err)
	}
	if token := l.attempt("ann", 3, driver.Terms{}, driver.Granted); token < claim.Floor {
		t.Errorf("token %v was given out below the floor %v", token, claim.Floor)
	}
}
