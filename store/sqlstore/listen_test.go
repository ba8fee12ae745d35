// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestDeafForAWhile: a notification that is late for once makes the store poll, and Check
// says so. It listens again later.
func TestDeafForAWhile(t *testing.T) {
	t.Parallel()
	server := need(t, postgres)
	b := onPostgres.behind(t, server)
	sqlstore.RetryListening(b.Store, time.Millisecond)
	heal := make(chan struct{})
	healed := sync.OnceFunc(func() { close(heal) })
	t.Cleanup(healed)
	b.proxy.Filter(func(_ int, toServer bool, data []byte) bool {
		if !toServer && bytes.Contains(data, []byte("hello ")) {
			<-heal
		}
		return true
	})
	holder := client(t, onPostgres.store(t, onPostgres.connect(t, server.Port), &b.opts), 50*time.Second)
	waiter := client(t, b, 50*time.Second)
	l := lock(t, holder, "x")
	got := make(chan *fencelock.Lease, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { got <- lock(t, waiter, "x") })
	deaf := func(want bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
			findings, err := b.Check(ctxb)
			must(t, err)
			if has(findings, "deaf") == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("Check found %v, want deaf to be %t", findings, want)
			}
		}
	}
	deaf(true)
	healed()
	deaf(false)
	must(t, l.Unlock(ctxb))
	if next := <-got; next == nil || next.Token() <= l.Token() {
		t.Errorf("the next holder is %v after token %v", next, l.Token())
	}
}

// TestTwoStoresListenOnOneHandle: the stores of a handle leave half of its connections to
// statements, so that each keeps its session alive while its claims wait.
func TestTwoStoresListenOnOneHandle(t *testing.T) {
	t.Parallel()
	server := need(t, postgres)
	db := onPostgres.connect(t, server.Port)
	opts := onPostgres.space(t, db)
	holder := open(t, onPostgres.store(t, onPostgres.connect(t, server.Port), &opts))
	attempt(t, holder, plain(1, "x"), driver.Granted)
	db.SetMaxOpenConns(2)
	ctx, cancel := context.WithTimeout(ctxb, time.Minute)
	defer cancel()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	var sessions []driver.Session
	for range 2 {
		ss := open(t, onPostgres.store(t, db, &opts))
		attempt(t, ss, queued(1, "x"), driver.Queued)
		waiting.Go(func() {
			if out, err := ss.Await(ctx, queued(1, "x")); err != nil || out.State != driver.Granted {
				t.Errorf("the waiter got %+v, %v", out, err)
			}
			withdraw(t, ss, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		})
		sessions = append(sessions, ss)
	}
	eventually(t, "that one store listens", func() bool { return sqlstore.Reserved(db) == 1 })
	for range 20 {
		for _, ss := range sessions {
			if _, err := ss.KeepAlive(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if n := sqlstore.Reserved(db); n > 1 {
			t.Fatalf("%d of 2 connections listen", n)
		}
	}
	withdraw(t, holder, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
}
