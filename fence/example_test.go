// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/memstore"
)

// Balance is a resource with a guard of its own: the newest mark it has seen,
// kept beside the value, under the mutex of the value.
type Balance struct {
	mu    sync.Mutex
	cents int
	kept  fence.Mark
}

// Enter raises the fence and then reads.
func (b *Balance) Enter(ctx context.Context, lock string) (cents int, err error) {
	err = b.admit(ctx, lock, func() { cents = b.cents })
	return cents, err
}

// Set writes, if no newer holder has been here.
func (b *Balance) Set(ctx context.Context, lock string, cents int) error {
	return b.admit(ctx, lock, func() { b.cents = cents })
}

// admit checks, keeps the mark and does the work in one step.
func (b *Balance) admit(ctx context.Context, lock string, work func()) error {
	given, err := fence.From(ctx, lock)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := fence.Check(b.kept, given); err != nil {
		return err
	}
	b.kept = given
	work()
	return nil
}

// A holder whose lease was broken comes late, and the resource refuses it.
func Example() {
	ctx := context.Background()
	locks, err := fencelock.New(memstore.New(nil), &fencelock.Options{Owner: "ann"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close(ctx)
	var balance Balance

	const lock = "accounts/1"
	err = locks.Do(ctx, lock, func(ctx context.Context, l *fencelock.Lease) error {
		cents, err := balance.Enter(ctx, lock)
		if err != nil {
			return err
		}
		// While ann works, an operator breaks her lease. The token that Break
		// returns fences her off at once.
		raised, err := locks.Break(ctx, lock, l.Token())
		if err != nil {
			return err
		}
		operator := fence.With(context.Background(), fence.Mark{Lock: lock, Token: raised, Holder: "operator"})
		if _, err := balance.Enter(operator, lock); err != nil {
			return err
		}
		return balance.Set(ctx, lock, cents+100)
	})
	fmt.Println("stale:", errors.Is(err, fence.ErrStale))
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		fmt.Println("given:", stale.Given)
		fmt.Println("newer:", stale.Newer)
	}
	fmt.Println("balance:", balance.cents)
	// Output:
	// stale: true
	// given: token 256 of lock "accounts/1", held by ann
	// newer: token 512 of lock "accounts/1", held by operator
	// balance: 0
}
