// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"flag"
	"log/slog"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/redis/go-redis/v9"
)

// together is how many tests run at a time: far more than there are processors,
// because nearly all of them wait, for a failover or for a grace.
const together = "20"

// Main runs the tests of a package that starts servers, and returns the exit code.
func Main(m *testing.M) int {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", together)
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // most servers here have something to warn of
	redis.SetLogger(silence{})
	return m.Run()
}

// silence discards the log of go-redis, which reports every broken connection: in these
// tests nearly all connections break.
type silence struct{}

// Printf implements the logger of go-redis.
func (silence) Printf(context.Context, string, ...any) {}

// WaitFor asks again and again until ok holds.
func WaitFor(t testing.TB, what string, ok func() bool) {
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

// Use acquires a lock, queues for it and passes it on, through the clients of two processes:
// every kind of command and message that a store needs for that.
func Use(t *testing.T, a, b driver.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first, second := Locks(t, a), Locks(t, b)
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
	WaitFor(t, "a client waits", func() bool {
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

// Locks returns a fencelock client that ends with the test.
func Locks(t *testing.T, s driver.Store) *fencelock.Client {
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
