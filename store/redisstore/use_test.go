// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

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
