// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
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
	wg.Go(func() {
		defer close(got) // lock may end the goroutine
		got <- lock(t, waiter, "x")
	})
	silent := func(want bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
			findings, err := b.Check(ctxb)
			must.OK(t, err)
			if has(findings, "notifications") == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("Check found %v, want notifications to be %t", findings, want)
			}
		}
	}
	silent(true)
	healed()
	silent(false)
	must.OK(t, l.Unlock(ctxb))
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

// TestListeningEndsAfterTheLastWait: a store gives its connection back when no claim waits any
// more, and listens again for the next one.
func TestListeningEndsAfterTheLastWait(t *testing.T) {
	t.Parallel()
	server := need(t, postgres)
	db := onPostgres.connect(t, server.Port)
	opts := onPostgres.space(t, db)
	holder := open(t, onPostgres.store(t, onPostgres.connect(t, server.Port), &opts))
	s := onPostgres.store(t, db, &opts)
	sqlstore.StopListeningSoon(s, 20*time.Millisecond)
	waiter := open(t, s)
	for seq := uint64(1); seq <= 3; seq++ {
		attempt(t, holder, plain(seq, "x"), driver.Granted)
		attempt(t, waiter, queued(seq, "x"), driver.Queued)
		got := awaiting(t, waiter, queued(seq, "x"))
		eventually(t, "that the store listens", func() bool { return sqlstore.Listening(s) == 1 })
		for range 5 { // it goes on while the claim waits
			time.Sleep(20 * time.Millisecond)
			if sqlstore.Reserved(db) != 1 {
				t.Fatal("the store stopped listening while a claim waited")
			}
		}
		withdraw(t, holder, driver.Withdrawal{Seq: seq, Name: "x"}, driver.WasGranted)
		if out := <-got; out.State != driver.Granted {
			t.Fatalf("the waiter got %+v", out)
		}
		withdraw(t, waiter, driver.Withdrawal{Seq: seq, Name: "x"}, driver.WasGranted)
		eventually(t, "that the store does not listen", func() bool { return sqlstore.Reserved(db) == 0 })
	}
}

// awaiting waits for a claim in the background.
func awaiting(t *testing.T, ss driver.Session, c *driver.Claim) <-chan driver.Outcome {
	t.Helper()
	got := make(chan driver.Outcome, 1)
	ctx, cancel := context.WithTimeout(ctxb, time.Minute)
	go func() {
		defer cancel()
		out, err := ss.Await(ctx, c)
		if err != nil {
			t.Errorf("claim %d: %v", c.Seq, err)
		}
		got <- out
	}()
	return got
}

// TestFarClaimsListenLater: a claim far from the front of a queue that moves quickly does not
// listen before it is near. What it is granted before is not missed.
func TestFarClaimsListenLater(t *testing.T) {
	t.Parallel()
	server := need(t, postgres)
	db := onPostgres.connect(t, server.Port)
	opts := onPostgres.space(t, db)
	others, s := onPostgres.store(t, onPostgres.connect(t, server.Port), &opts), onPostgres.store(t, db, &opts)
	holder, far := open(t, others), open(t, s)
	attempt(t, holder, plain(1, "x"), driver.Granted)
	var before []driver.Session
	for range 30 {
		ss := open(t, others)
		attempt(t, ss, queued(1, "x"), driver.Queued)
		before = append(before, ss)
	}
	sqlstore.SetPace(s, "x", 29, 10*time.Millisecond) // far enough for some 150ms
	if out := attempt(t, far, queued(1, "x"), driver.Queued); out.Position != 30 {
		t.Fatalf("the claim is at %d", out.Position)
	}
	if sqlstore.Listens(s, far) {
		t.Fatal("the store listens for a claim that 30 others are before")
	}
	got := awaiting(t, far, queued(1, "x"))
	eventually(t, "that the store listens for it", func() bool { return sqlstore.Listens(s, far) })
	for _, ss := range before {
		withdraw(t, ss, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasQueued)
	}
	withdraw(t, holder, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
	if out := <-got; out.State != driver.Granted {
		t.Fatalf("the far claim got %+v", out)
	}
	// Queued again, at the end. This time it may be granted while the store does not listen.
	for _, ss := range before {
		attempt(t, ss, queued(2, "x"), driver.Queued)
	}
	sqlstore.SetPace(s, "x", 29, 10*time.Millisecond)
	withdraw(t, far, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
	attempt(t, far, queued(2, "x"), driver.Queued)
	got = awaiting(t, far, queued(2, "x"))
	eventually(t, "that the store rests", func() bool { return !sqlstore.Listens(s, far) })
	for _, ss := range before[1:] {
		withdraw(t, ss, driver.Withdrawal{Seq: 2, Name: "x"}, driver.WasQueued)
	}
	attempt(t, before[0], queued(2, "x"), driver.Granted)
	withdraw(t, before[0], driver.Withdrawal{Seq: 2, Name: "x"}, driver.WasGranted)
	if out := <-got; out.State != driver.Granted {
		t.Fatalf("the claim that was granted during its rest got %+v", out)
	}
}

// TestFailedCloseEndsWaitsAndListening: a session whose Close fails is over for its process:
// its waits end, and the store does not listen for it any more. Close can be repeated, and frees
// the locks of the session then.
func TestFailedCloseEndsWaitsAndListening(t *testing.T) {
	t.Parallel()
	server := need(t, postgres)
	b := onPostgres.behind(t, server)
	holder := open(t, onPostgres.store(t, onPostgres.connect(t, server.Port), &b.opts))
	attempt(t, holder, plain(1, "x"), driver.Granted)
	ss := open(t, b)
	attempt(t, ss, plain(1, "y"), driver.Granted)
	attempt(t, ss, queued(2, "x"), driver.Queued)
	ctx, cancel := context.WithTimeout(ctxb, time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := ss.Await(ctx, queued(2, "x"))
		ended <- err
	}()
	eventually(t, "that the store listens", func() bool { return sqlstore.ListensAs(b.Store, ss) })
	b.proxy.Filter(func(_ int, toServer bool, data []byte) bool {
		return !toServer || !bytes.Contains(data, []byte("fencelock closeSession"))
	})
	short, stop := context.WithTimeout(ctxb, time.Second)
	defer stop()
	if err := ss.Close(short); err == nil {
		t.Fatal("Close succeeded without its statement")
	}
	b.proxy.Filter(nil)
	if err := <-ended; !errors.Is(err, driver.ErrGone) {
		t.Errorf("the wait ended with %v, want ErrGone", err)
	}
	eventually(t, "that the session left the listener", func() bool { return sqlstore.Members(b.Store) == 0 })
	must.OK(t, ss.Close(ctx))
	attempt(t, holder, plain(2, "y"), driver.Granted)
}

// TestFailedGreetingIsRepeated: a greeting that could not be sent is sent again, even when
// another session has to be listened for at that moment. The store is not taken for silent.
func TestFailedGreetingIsRepeated(t *testing.T) {
	t.Parallel()
	server := need(t, postgres)
	b := onPostgres.behind(t, server)
	holder := open(t, onPostgres.store(t, onPostgres.connect(t, server.Port), &b.opts))
	attempt(t, holder, plain(1, "x"), driver.Granted)
	ss := open(t, b)
	var once sync.Once
	b.proxy.Filter(func(_ int, toServer bool, data []byte) bool {
		failed := false
		if toServer && bytes.Contains(data, []byte("hello ")) {
			once.Do(func() {
				sqlstore.Rescan(b.Store)
				failed = true
			})
		}
		return !failed
	})
	attempt(t, ss, queued(1, "x"), driver.Queued)
	got := awaiting(t, ss, queued(1, "x"))
	eventually(t, "that the store listens", func() bool {
		findings, err := b.Check(ctxb)
		must.OK(t, err)
		if has(findings, "notifications") {
			t.Fatal("the store is taken for silent")
		}
		return sqlstore.ListensAs(b.Store, ss)
	})
	withdraw(t, holder, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
	if out := <-got; out.State != driver.Granted {
		t.Errorf("the waiter got %+v", out)
	}
}
