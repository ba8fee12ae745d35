// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/store/memstore"
)

// The code of docs/zh-CN/from-the-articles.md and docs/zh-CN/redisson.md.

// tryNow is SET NX PX with a safe unlock. It does not wait.
func tryNow(ctx context.Context, locks *fencelock.Client, name string, do func(ctx context.Context) error) (ran bool, err error) {
	lease, err := locks.Mutex(name).TryLock(ctx)
	if errors.Is(err, fencelock.ErrBusy) {
		return false, nil // *fencelock.BusyError has the holder
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lease.Unlock(ctx)) }()
	held, stop := lease.WithContext(ctx) // ends with ctx, or when the lock is lost
	defer stop()
	return true, do(held)
}

// tryWait is tryLock(wait): the lease is renewed until it is unlocked.
func tryWait(ctx context.Context, locks *fencelock.Client, name string, wait time.Duration, do func(ctx context.Context, token fencelock.Token) error) (err error) {
	waiting, cancel := context.WithTimeout(ctx, wait) // for the wait only, not for the work
	defer cancel()
	lease, err := locks.Mutex(name).Lock(waiting)
	if err != nil {
		return err // errors.Is(err, context.DeadlineExceeded): not granted in time
	}
	defer func() { err = errors.Join(err, lease.Unlock(ctx)) }()
	held, stop := lease.WithContext(ctx) // ends with ctx, or when the lock is lost
	defer stop()
	return do(held, lease.Token())
}

// tryFor is tryLock(wait, lease). do ends with its context after hold at the latest.
func tryFor(ctx context.Context, locks *fencelock.Client, name string, wait, hold time.Duration, do func(ctx context.Context) error) (err error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	lease, err := locks.Mutex(name, fencelock.MaxHold(hold)).Lock(waiting)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Unlock(ctx)) }()
	held, stop := lease.WithContext(ctx) // ends with ctx, or when the lock is lost
	defer stop()
	return do(held)
}

// Locking without waiting, and waiting for a bounded time.
func Example_tryLock() {
	ctx := context.Background()
	store := memstore.New(nil)
	a, b := process(store, "a"), process(store, "b")
	defer a.Close(ctx)
	defer b.Close(ctx)

	err := a.Do(ctx, "report", func(ctx context.Context, _ *fencelock.Lease) error {
		ran, err := tryNow(context.Background(), b, "report", func(context.Context) error { return nil })
		fmt.Println("b ran while a holds:", ran, err)
		err = tryFor(context.Background(), b, "report", time.Millisecond, time.Minute, func(context.Context) error { return nil })
		fmt.Println("b stopped waiting:", errors.Is(err, context.DeadlineExceeded))
		err = tryWait(context.Background(), b, "report", time.Millisecond, func(context.Context, fencelock.Token) error { return nil })
		fmt.Println("b stopped waiting again:", errors.Is(err, context.DeadlineExceeded))
		return nil
	})
	fmt.Println(err)
	err = tryFor(ctx, b, "report", time.Minute, time.Minute, func(context.Context) error { return nil })
	fmt.Println("b ran after a:", err)
	err = tryWait(ctx, b, "report", time.Minute, func(ctx context.Context, _ fencelock.Token) error {
		_, bounded := ctx.Deadline()
		fmt.Println("the work has the deadline of the wait:", bounded)
		return ctx.Err()
	})
	fmt.Println("b ran again:", err)
	// Output:
	// b ran while a holds: false <nil>
	// b stopped waiting: true
	// b stopped waiting again: true
	// <nil>
	// b ran after a: <nil>
	// the work has the deadline of the wait: false
	// b ran again: <nil>
}

// A lease that is over cannot unlock the next holder's lock.
func Example_staleUnlock() {
	ctx := context.Background()
	store := memstore.New(nil)
	a, b := process(store, "a"), process(store, "b")
	defer a.Close(ctx)
	defer b.Close(ctx)

	old, err := a.Mutex("orders/42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := b.ForceUnlock(ctx, "orders/42", old.Token()); err != nil { // as if a's lease had expired
		fmt.Println(err)
		return
	}
	next, err := b.Mutex("orders/42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = old.Unlock(ctx)
	fmt.Println("a's unlock reports a lost lease:", errors.Is(err, fencelock.ErrLost))
	fmt.Println("b still holds:", next.Valid(), "with a greater token:", next.Token() > old.Token())
	fmt.Println(next.Unlock(ctx))
	// Output:
	// a's unlock reports a lost lease: true
	// b still holds: true with a greater token: true
	// <nil>
}

// Re-entry, readers and writers, several locks at once.
func Example_kinds() {
	ctx := context.Background()
	locks := process(memstore.New(nil), "a")
	defer locks.Close(ctx)

	err := locks.Do(ctx, "orders/42", func(ctx context.Context, outer *fencelock.Lease) error {
		return locks.Do(ctx, "orders/42", func(ctx context.Context, inner *fencelock.Lease) error {
			fmt.Println("same token:", inner.Token() == outer.Token())
			return nil
		})
	})
	fmt.Println(err)

	index := locks.RWMutex("index")
	err = index.DoRead(ctx, func(ctx context.Context, _ *fencelock.Lease) error {
		_, err := index.TryLock(context.Background()) // a writer has to wait for the readers
		fmt.Println("write lock while reading:", !errors.Is(err, fencelock.ErrBusy))
		return nil
	})
	fmt.Println(err)

	accounts, err := locks.LockAll(ctx, []string{"account/alice", "account/bob"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("both accounts:", accounts.Context().Err() == nil)
	fmt.Println(accounts.Unlock(ctx))
	// Output:
	// same token: true
	// <nil>
	// write lock while reading: false
	// <nil>
	// both accounts: true
	// <nil>
}

// account compares tokens where the data is. A database does it with
// UPDATE … SET fence = $token WHERE … AND fence <= $token.
type account struct {
	kept    fence.Mark
	balance int
}

func (a *account) set(ctx context.Context, balance int) error {
	given, err := fence.FromContext(ctx, "account/7") // the token of the lease in ctx
	if err != nil {
		return err
	}
	if err := fence.Check(a.kept, given); err != nil {
		return err // a newer holder was here
	}
	a.kept, a.balance = given, balance
	return nil
}

// The late write of an earlier holder is rejected by its token.
func Example_fencing() {
	ctx := context.Background()
	store := memstore.New(nil)
	a, b := process(store, "a"), process(store, "b")
	defer a.Close(ctx)
	defer b.Close(ctx)

	var acc account
	old, err := a.Mutex("account/7").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	late := context.WithoutCancel(old.Context()) // a holder that misses the cancellation
	if _, err := b.ForceUnlock(ctx, "account/7", old.Token()); err != nil {
		fmt.Println(err)
		return
	}
	err = b.Do(ctx, "account/7", func(ctx context.Context, _ *fencelock.Lease) error { return acc.set(ctx, 110) })
	fmt.Println("b writes:", err)
	err = acc.set(late, 150)
	fmt.Println("a writes late, rejected:", errors.Is(err, fence.ErrStale), "balance:", acc.balance)
	// Output:
	// b writes: <nil>
	// a writes late, rejected: true balance: 110
}
