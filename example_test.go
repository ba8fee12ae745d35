// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// The everyday call. It needs no server.
func Example() {
	ctx := context.Background()
	locks, err := fencelock.New(memstore.New(nil), nil) // one client per process
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	err = locks.Do(ctx, "orders/42", func(ctx context.Context, l *fencelock.Lease) error {
		// ctx ends if the lease is lost. Give the token to what you write to:
		// UPDATE orders SET …, fence = $token WHERE id = 42 AND fence <= $token (no row: rejected)
		fmt.Println("holding", l.Name(), "with token", l.Token())
		return nil
	})
	if err != nil {
		log.Fatal(err) // errors.Is(err, fencelock.ErrLost): another process may have worked on it
	}
	// Output: holding orders/42 with token 256
}

// Lock waits for the lock, TryLock does not: its error names the holder.
func ExampleMutex() {
	ctx := context.Background()
	store := memstore.New(nil)
	billing, err := fencelock.New(store, &fencelock.Options{Owner: "billing@host-a:17"})
	if err != nil {
		log.Fatal(err)
	}
	defer billing.Close(ctx)
	shipping, err := fencelock.New(store, &fencelock.Options{Owner: "shipping@host-b:4"})
	if err != nil {
		log.Fatal(err)
	}
	defer shipping.Close(ctx)

	lease, err := billing.Mutex("orders/42", fencelock.Reason("monthly invoice")).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	_, err = shipping.Mutex("orders/42").TryLock(ctx)
	var busy *fencelock.BusyError
	if errors.As(err, &busy) {
		holder := busy.Holders[0].Record
		fmt.Printf("%s is held by %s: %s\n", busy.Name, holder.Owner, holder.Reason)
	}

	if err := lease.Unlock(ctx); err != nil {
		log.Fatal(err) // lost before, or not confirmed by the store
	}
	next, err := shipping.Mutex("orders/42").TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("next holder, greater token:", next.Token() > lease.Token())
	fmt.Println(next.Unlock(ctx))
	// Output:
	// orders/42 is held by billing@host-a:17: monthly invoice
	// next holder, greater token: true
	// <nil>
}

// A writer builds an index, then goes on as a reader: no other writer can come
// in between, and other readers are let in.
func ExampleRWMutex_Downgrade() {
	ctx := context.Background()
	store := memstore.New(nil)
	a, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)
	b, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close(ctx)

	index := a.RWMutex("index")
	lease, err := index.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = b.RWMutex("index").TryRLock(ctx)
	fmt.Println("b may read while a writes:", !errors.Is(err, fencelock.ErrBusy))

	if err := index.Downgrade(ctx, lease); err != nil {
		log.Fatal(err)
	}
	reader, err := b.RWMutex("index").TryRLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = b.RWMutex("index").TryLock(ctx)
	fmt.Println("b may read, and write:", reader.Valid(), !errors.Is(err, fencelock.ErrBusy))

	fmt.Println(lease.Unlock(ctx), reader.Unlock(ctx))
	// Output:
	// b may read while a writes: false
	// b may read, and write: true false
	// <nil> <nil>
}

// At most three exports at a time over all processes, and a big one counts for
// two. The limit can be changed while everything runs.
func ExampleSemaphore() {
	ctx := context.Background()
	c, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	exports := c.Semaphore("exports", 3)

	big, err := exports.Acquire(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	small, err := exports.Acquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	_, err = exports.TryAcquire(ctx, 1)
	fmt.Println("a fourth is let in:", !errors.Is(err, fencelock.ErrBusy))

	if err := exports.SetLimit(ctx, 4); err != nil { // for all processes
		log.Fatal(err)
	}
	fourth, err := exports.TryAcquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("after raising the limit:", fourth.Name())

	for _, permit := range []*fencelock.Lease{big, small, fourth} {
		if err := permit.Unlock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// a fourth is let in: false
	// after raising the limit: exports
}

// Transfers in both directions at once. Locked one by one they could wait for
// each other forever; LockAll takes the names in one order.
func ExampleClient_LockAll() {
	ctx := context.Background()
	c, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)

	balance := map[string]int{"alice": 100, "bob": 100}
	transfer := func(from, to string, amount int) {
		set, err := c.LockAll(ctx, []string{"account/" + from, "account/" + to})
		if err != nil {
			log.Fatal(err)
		}
		balance[from] -= amount // set.Context() ends if one of the leases is lost
		balance[to] += amount
		if err := set.Unlock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { transfer("alice", "bob", 3) })
		all.Go(func() { transfer("bob", "alice", 1) })
	}
	all.Wait()
	fmt.Println(balance)
	// Output: map[alice:60 bob:140]
}

// Every replica runs the same. One leads; when it stops, resigns, loses the
// lease or dies, another does. After a loss it campaigns again by itself.
func ExampleElection() {
	store := memstore.New(nil)
	leads := make(chan string) // who began to lead
	ended := make(chan error)  // what Run returned

	replica := func(ctx context.Context, who string) {
		c, err := fencelock.New(store, &fencelock.Options{Owner: who})
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close(context.Background())
		ended <- c.Election("scheduler").Run(ctx, func(ctx context.Context, term *fencelock.Lease) error {
			leads <- who
			<-ctx.Done() // work until the term ends; term.Token() fences it
			return ctx.Err()
		})
	}

	ctxA, stopA := context.WithCancel(context.Background())
	go replica(ctxA, "a")
	fmt.Println("leads:", <-leads)

	ctxB, stopB := context.WithCancel(context.Background())
	go replica(ctxB, "b")
	stopA() // a deployment, say
	fmt.Println("a:", <-ended)
	fmt.Println("leads:", <-leads)
	stopB()
	fmt.Println("b:", <-ended)
	// Output:
	// leads: a
	// a: context canceled
	// leads: b
	// b: context canceled
}

// A cron job on three replicas. The occurrence is the scheduled time, not the
// time of day: a replica whose clock is late finds that it has run.
func ExampleOnce() {
	ctx := context.Background()
	store := memstore.New(nil)
	scheduled := time.Date(2026, time.November, 15, 2, 0, 0, 0, time.UTC)

	for _, replica := range []string{"replica-1", "replica-2", "replica-3"} {
		c, err := fencelock.New(store, &fencelock.Options{Owner: replica})
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close(ctx)

		// The mark is kept for an hour: longer than any replica can be late.
		report := c.Once("report", time.Hour)
		res, err := report.Do(ctx, scheduled.Format(time.RFC3339), func(ctx context.Context, l *fencelock.Lease) error {
			return nil // the work; with an error another replica may run it
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(replica, ": ", res)
		if res.Holder != nil {
			fmt.Print(" on ", res.Holder.Record.Owner)
		}
		fmt.Println()
	}
	// Output:
	// replica-1: ran
	// replica-2: already ran on replica-1
	// replica-3: already ran on replica-1
}

// Re-entry goes by context: a function that locks can be called with the lock
// held, and a guard finds the token without an argument for it.
func Example_reentry() {
	ctx := context.Background()
	c, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)

	save := func(ctx context.Context, what string) {
		fmt.Println("save", what, "with token", fencelock.FromContext(ctx, "orders/42").Token())
	}
	addLine := func(ctx context.Context) error {
		return c.Do(ctx, "orders/42", func(ctx context.Context, _ *fencelock.Lease) error {
			save(ctx, "line")
			return nil
		})
	}

	err = c.Do(ctx, "orders/42", func(ctx context.Context, _ *fencelock.Lease) error {
		save(ctx, "order")
		return addLine(ctx) // this context carries the lease: no round trip, no deadlock
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// save order with token 256
	// save line with token 256
}

// Three in the morning: who holds it, and how is it taken away without harm?
func ExampleClient_ForceUnlock() {
	ctx := context.Background()
	store := memstore.New(nil)
	job, err := fencelock.New(store, &fencelock.Options{Owner: "import@host-a:17"})
	if err != nil {
		log.Fatal(err)
	}
	defer job.Close(ctx)
	stuck, err := job.Mutex("import/eu", fencelock.Reason("nightly import")).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	operator, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close(ctx)
	for st, err := range operator.List(ctx, "import/") {
		if err != nil {
			log.Fatal(err)
		}
		holder := st.Holders[0]
		fmt.Printf("%s: %s (%s), token %v, %d waiting\n",
			st.Name, holder.Record.Owner, holder.Record.Reason, holder.Token, st.Waiting)

		// By token: if the lock has changed hands since, its new holder keeps it.
		fence, err := operator.ForceUnlock(ctx, st.Name, holder.Token)
		if err != nil {
			log.Fatal(err)
		}
		// Raise the fence of the resource to this token: then the old holder
		// can do no more harm, whether it has been notified yet or not.
		fmt.Println("fence above the old token:", fence > stuck.Token())
	}
	err = stuck.Unlock(ctx)
	fmt.Println("the old holder is notified:", errors.Is(err, fencelock.ErrLost), errors.Is(err, fencelock.LossForceUnlock))
	// Output:
	// import/eu: import@host-a:17 (nightly import), token 256, 0 waiting
	// fence above the old token: true
	// the old holder is notified: true true
}

// A pod is ready when new locks can be had.
func ExampleClient_Ready() {
	store := memstore.New(&memstore.Options{Grace: true, MaxTTL: 15 * time.Second})
	locks, err := fencelock.New(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close(context.Background())

	ready := func(ctx context.Context) string {
		err := locks.Ready(ctx)
		switch {
		case errors.Is(err, fencelock.ErrGrace):
			return "503: no new locks for now"
		case err != nil:
			return "503: " + err.Error()
		}
		return "200: ready"
	}
	fmt.Println(ready(context.Background()))
	store.Reset() // the server lost its data
	fmt.Println(ready(context.Background()))
	// Output:
	// 200: ready
	// 503: no new locks for now
}

// Shutting down: Close notifies holders and waiters and releases the locks, so that
// the next process need not wait for the TTL.
func ExampleClient_Close() {
	ctx := context.Background()
	store := memstore.New(nil)
	c, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	working := make(chan struct{})
	worked := make(chan error)
	go func() {
		worked <- c.Do(ctx, "orders/42", func(ctx context.Context, _ *fencelock.Lease) error {
			close(working)
			<-ctx.Done() // the work stops here
			return context.Cause(ctx)
		})
	}()
	<-working

	// On SIGTERM; the time it may take is yours to bound.
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	fmt.Println("closed:", c.Close(bounded))
	fmt.Println("the worker was notified:", errors.Is(<-worked, fencelock.ErrClosed))

	next, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Close(ctx)
	lease, err := next.Mutex("orders/42").TryLock(ctx) // at once
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Unlock(ctx))
	// Output:
	// closed: <nil>
	// the worker was notified: true
	// <nil>
}

// The store is chosen by the configuration. A program imports every store that it can
// use: this one knows mem:// only.
func ExampleOpenStore() {
	ctx := context.Background()
	store, err := fencelock.OpenStore(ctx, cmp.Or(os.Getenv("LOCKS"), "mem://?grace=true"))
	if err != nil {
		log.Fatal(err) // names the scheme or the parameter that is wrong, and no password
	}
	defer store.Close()
	locks, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	err = locks.Do(ctx, "reports/nightly", func(ctx context.Context, l *fencelock.Lease) error {
		fmt.Println("holding", l.Name())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = fencelock.OpenStore(ctx, "redis://:secret@localhost")
	fmt.Println(err)
	// Output:
	// holding reports/nightly
	// fencelock: the store of redis:// is not linked into this program; add import _ "github.com/fencelock/fencelock/store/redisstore"
}
