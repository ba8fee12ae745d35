// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// pack is the code under test: it packs an order unless another replica does.
func pack(ctx context.Context, locks *fencelock.Client, order string, work func(context.Context) error) error {
	lease, err := locks.Mutex("orders/" + order).TryLock(ctx)
	if err != nil {
		return err
	}
	ctx, stop := lease.WithContext(ctx)
	defer stop()
	return errors.Join(work(ctx), lease.Unlock(ctx))
}

// packer is a client as one process has it. Those of one test share a store.
func packer(t *testing.T, store driver.Store) *fencelock.Client {
	t.Helper()
	locks, err := fencelock.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close(context.Background()) })
	return locks
}

func TestOrderIsPackedByOneReplica(t *testing.T) {
	store := memstore.New(nil)
	first, second := packer(t, store), packer(t, store)
	err := pack(t.Context(), first, "42", func(ctx context.Context) error {
		return pack(ctx, second, "42", func(context.Context) error { return nil })
	})
	if !errors.Is(err, fencelock.ErrBusy) {
		t.Errorf("two replicas pack one order: %v", err)
	}
}

func TestPackingStopsWhenTheLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		fault := faultstore.MustParse("during(5s, 65s, lose(request))")
		bent, err := faultstore.Wrap(store, fault, nil)
		if err != nil {
			t.Fatal(err)
		}
		cutOff, other := packer(t, bent), packer(t, store)
		var stopped time.Time
		done := make(chan error, 1)
		go func() {
			done <- pack(t.Context(), cutOff, "42", func(ctx context.Context) error {
				<-ctx.Done() // your work must stop, too
				stopped = time.Now()
				return context.Cause(ctx)
			})
		}()
		synctest.Wait() // the order is being packed
		lease, err := other.Mutex("orders/42").Lock(t.Context())
		locked := time.Now()
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, fencelock.ErrLost) || !stopped.Before(locked) {
			t.Errorf("stopped at %v with %v, the other replica locked at %v", stopped, err, locked)
		}
		_ = lease.Unlock(t.Context())
	})
}
