// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// account is a resource with a guard: it remembers the newest token it has seen
// and refuses older ones.
type account struct {
	fence   fencelock.Token
	balance int
}

func (a *account) set(balance int, token fencelock.Token) error {
	if token < a.fence {
		return fmt.Errorf("token %v is older than %v", token, a.fence)
	}
	a.fence, a.balance = token, balance
	return nil
}

// A holder is cut off from the store. Its context is canceled, with the reason, before
// another client gets the lock. If the holder writes anyway, the resource rejects its
// token.
func Example_lost() {
	ctx := context.Background()
	store := memstore.New(nil)
	opts := &fencelock.Options{TTL: 300 * time.Millisecond}

	// This process can lock, but none of its renewals arrives.
	cutOff, err := faultstore.Wrap(store, faultstore.MustParse("on(keepalive, lose(request))"), nil)
	if err != nil {
		log.Fatal(err)
	}
	a, err := fencelock.New(cutOff, opts)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)
	b, err := fencelock.New(store, opts)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close(ctx)

	var acc account
	old, err := a.Mutex("account/7").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a writes:", acc.set(100, old.Token()))

	<-old.Context().Done() // a real program passes this context to its calls
	cause := context.Cause(old.Context())
	fmt.Println("a was notified:", errors.Is(cause, fencelock.ErrLost))
	fmt.Println(cause)

	lease, err := b.Mutex("account/7").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("b writes:", acc.set(70, lease.Token()))
	fmt.Println("a writes late:", acc.set(100, old.Token()) != nil, acc.balance)
	fmt.Println(lease.Unlock(ctx))
	// Output:
	// a writes: <nil>
	// a was notified: true
	// fencelock: lease lost: session not renewed in time
	// b writes: <nil>
	// a writes late: true 70
	// <nil>
}

// orders is a table whose rows keep the newest token that wrote them.
type orders struct {
	total int
	kept  fence.Mark
}

// save writes if no newer holder has been here: the check and the write are one step.
func (o *orders) save(ctx context.Context, total int) error {
	given, err := fence.FromContext(ctx, "orders/42")
	if err != nil {
		return err
	}
	if err := fence.Check(o.kept, given); err != nil {
		return err
	}
	o.total, o.kept = total, given
	return nil
}

// A guard at the resource rejects a holder that comes late. Package sqlfence does the same in a
// database.
func ExampleToken() {
	ctx := context.Background()
	c, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)

	var table orders
	var late context.Context // of the first holder, as if it had been paused
	for _, total := range []int{100, 110} {
		err = c.Do(ctx, "orders/42", func(ctx context.Context, _ *fencelock.Lease) error {
			if late == nil {
				late = ctx
			}
			return table.save(ctx, total)
		})
	}
	fmt.Println(table.total, err)
	err = table.save(late, 150)
	fmt.Println("the late write:", errors.Is(err, fence.ErrStale), "and the total is", table.total)
	// Output:
	// 110 <nil>
	// the late write: true and the total is 110
}

// The answer of a lock that another process holds names the holder.
func ExampleBusyError() {
	ctx := context.Background()
	store := memstore.New(nil)
	ann, _ := fencelock.New(store, &fencelock.Options{Owner: "ann"})
	defer ann.Close(ctx)
	bob, _ := fencelock.New(store, &fencelock.Options{Owner: "bob"})
	defer bob.Close(ctx)

	if _, err := ann.Mutex("report", fencelock.Reason("month's end")).Lock(ctx); err != nil {
		fmt.Println(err)
	}
	_, err := bob.Mutex("report").TryLock(ctx)
	var busy *fencelock.BusyError
	var failed *fencelock.Error
	fmt.Println(errors.As(err, &busy), errors.As(err, &failed))
	byName := func(h fencelock.Holder) string { return h.Record.Owner + " holds it: " + h.Record.Reason }
	fmt.Println(byName(busy.Holders[0]))
	// Output:
	// true false
	// ann holds it: month's end
}

// The cause of the lease's context says why it ended.
func ExampleLostError() {
	ctx := context.Background()
	c, _ := fencelock.New(memstore.New(nil), nil)
	defer c.Close(ctx)

	lease, err := c.Mutex("import", fencelock.MaxHold(20*time.Millisecond)).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	<-lease.Context().Done()
	var lost *fencelock.LostError
	if errors.As(context.Cause(lease.Context()), &lost) {
		fmt.Println(lost.Reason, lost.Reason == fencelock.LossMaxHold)
	}
	// Output: lease reached its end true
}

// A store that has lost its data grants nothing new until earlier holders had time to come back.
func ExampleGraceError() {
	ctx := context.Background()
	store := memstore.New(&memstore.Options{Grace: true})
	c, _ := fencelock.New(store, nil)
	defer c.Close(ctx)

	store.Restart()
	_, err := c.Mutex("orders/42").TryLock(ctx)
	var grace *fencelock.GraceError
	if errors.As(err, &grace) {
		fmt.Println("try again later:", grace.RetryAfter > 0)
	}
	// Output: try again later: true
}

// What this store promises, and what the program needs.
func ExampleGuarantees() {
	ctx := context.Background()
	c, err := fencelock.New(memstore.New(nil), &fencelock.Options{Require: fencelock.Efficiency})
	if err != nil {
		fmt.Println(err) // with what to change
		return
	}
	defer c.Close(ctx)
	g := c.Guarantees()
	fmt.Println(g.Server, g.Fencing, "fair:", g.Fair, "survives a crash:", g.SurvivesCrash)
	// Output: memory strict fair: true survives a crash: false
}

// Hooks are for traces and metrics; package otelfencelock has them ready-made.
func ExampleHooks() {
	ctx := context.Background()
	hooks := fencelock.Hooks{
		AcquireStart: func(ctx context.Context, e fencelock.AcquireStart) context.Context {
			fmt.Println("start:", e.Name)
			return ctx
		},
		AcquireWait: func(_ context.Context, e fencelock.AcquireWait) { fmt.Println("wait behind", e.Position) },
		AcquireEnd:  func(_ context.Context, e fencelock.AcquireEnd) { fmt.Println("end:", e.Name, e.Err) },
		OnceEnd:     func(_ context.Context, e fencelock.OnceEnd) { fmt.Println("once:", e.Occurrence, e.Result) },
		Event: func(e fencelock.Event) {
			if e.Kind == fencelock.LeaseReleased {
				fmt.Println(e.Kind)
			}
		},
	}
	c, _ := fencelock.New(memstore.New(nil), &fencelock.Options{Hooks: hooks})
	defer c.Close(ctx)

	result, err := c.Once("report", time.Hour).Do(ctx, "02:00", func(context.Context, *fencelock.Lease) error { return nil })
	fmt.Println(result.Done, err)
	// Output:
	// start: report@02:00
	// end: report@02:00 <nil>
	// lease released
	// once: 02:00 ran
	// true <nil>
}

// Who holds a lock, and who waits for it.
func ExampleStatus() {
	ctx := context.Background()
	c, _ := fencelock.New(memstore.New(nil), &fencelock.Options{Owner: "ann"})
	defer c.Close(ctx)

	options := []fencelock.LockOption{fencelock.Reason("nightly"), fencelock.Label("team", "billing")}
	lease, err := c.Mutex("report", options...).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Unlock(ctx)

	st, err := c.Inspect(ctx, "report")
	if err != nil {
		fmt.Println(err)
		return
	}
	show := func(who fencelock.Record) string { return fmt.Sprint(who.Owner, ": ", who.Reason, ", ", who.Labels) }
	for _, h := range st.Holders {
		fmt.Println("held by", show(h.Record), h.Token == lease.Token())
	}
	oldest := func(a, b fencelock.Waiter) int { return cmp.Compare(b.Age, a.Age) }
	for _, w := range slices.SortedFunc(slices.Values(st.Waiters), oldest) {
		fmt.Println("waited for by", show(w.Record))
	}
	// Output: held by ann: nightly, map[team:billing] true
}

// Several leases that were acquired together end together.
func ExampleLeaseSet() {
	ctx := context.Background()
	c, _ := fencelock.New(memstore.New(nil), nil)
	defer c.Close(ctx)

	set, err := c.LockAll(ctx, []string{"stock/7", "stock/3"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range set.Leases() {
		fmt.Println(l.Name())
	}
	fmt.Println(set.Valid(), set.Unlock(ctx), set.Valid())
	// Output:
	// stock/3
	// stock/7
	// true <nil> false
}
