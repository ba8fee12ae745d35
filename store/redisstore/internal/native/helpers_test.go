// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// waitFor asks again and again until ok holds.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		}
	}
}

// use acquires a lock, queues for it and passes it on, through the clients of two processes:
// every kind of command and message that a store needs for that.
func use(t *testing.T, a, b driver.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first, second := locks(t, a), locks(t, b)
	held, err := first.Mutex("used").Lock(ctx)
	if err != nil {
		t.Fatalf("lock: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		l, err := second.Mutex("used").Lock(ctx)
		if err == nil && l.Token() <= held.Token() {
			t.Errorf("token %v after %v", l.Token(), held.Token())
		}
		if err == nil {
			err = l.Unlock(ctx)
		}
		got <- err
	}()
	waitFor(t, "a client waits", func() bool {
		st, err := a.Inspect(ctx, "used")
		if err != nil {
			t.Fatalf("inspect: %v", err)
		}
		return st.Waiting > 0
	})
	if page, err := b.List(ctx, driver.ListQuery{Max: 10}); err != nil || len(page.Locks) != 1 {
		t.Errorf("list: %d locks, %v; want the one that is held", len(page.Locks), err)
	}
	if err := held.Unlock(ctx); err != nil {
		t.Fatalf("unlock: %v", err)
	}
	if err := <-got; err != nil {
		t.Fatalf("handed off: %v", err)
	}
}

// locks returns a fencelock client that ends with the test.
func locks(t *testing.T, s driver.Store) *fencelock.Client {
	t.Helper()
	c, err := fencelock.New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = c.Close(ctx) // the servers of some tests are gone by then
	})
	return c
}

// anOpen opens a session for a while, and returns it with the error.
func anOpen(t *testing.T, s Store) (driver.Session, error) {
	t.Helper()
	ttl := min(5*time.Second, s.Caps().MaxTTL) // a busy machine stands still for some of it
	d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: ttl})
	return d, err
}

// secret is the password of a user.
const secret = "s3cret"

// aclLine is the line of docs/redis.md.
func aclLine(t testing.TB) string {
	t.Helper()
	client := redis.NewClient(&redis.Options{})
	defer client.Close() // it never connected
	store, err := newGoRedis(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	return store.ACL("locks")
}

// startWithUser starts a server with the user that the store asks for, with or
// without more rules, and returns how to log in as it.
func startWithUser(t testing.TB, flavour redistest.Flavor, rules ...string) (*redistest.Server, login) {
	t.Helper()
	args := append([]string{"--user"}, strings.Fields(aclLine(t)+" >"+secret)...)
	server := flavour.Start(t, append(args, rules...)...)
	return server, login{addr: server.Addr, user: "locks", pass: secret}
}

// wantFindings fails unless a check finds exactly these.
func wantFindings(t *testing.T, s Store, want ...string) {
	t.Helper()
	if findings, err := s.Check(t.Context()); err != nil || !slices.Equal(codes(findings), want) {
		t.Errorf("check: got %v, %v, want %v", findings, err, want)
	}
}

func codes(findings []driver.Finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, f.Code)
	}
	return all
}
