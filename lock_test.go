// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/memstore"
)

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		st := memstore.New(nil)
		a, err := fencelock.New(st, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := fencelock.New(st, nil)
		la, err := a.Mutex("x").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(la.Token(), time.Until(la.Deadline()))
		_, err = b.Mutex("x").TryLock(ctx)
		t.Log(err)
		if !errors.Is(err, fencelock.ErrBusy) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		go func() {
			time.Sleep(time.Second)
			if err := la.Unlock(ctx); err != nil {
				t.Error(err)
			}
		}()
		lb, err := b.Mutex("x").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(lb.Token())
		err = b.Do(lb.Context(), "x", func(ctx context.Context, l *fencelock.Lease) error {
			t.Log("reentered", l.Token())
			return nil
		})
		t.Log(err, lb.Unlock(ctx))
		t.Log(a.Close(ctx), b.Close(ctx))
	})
}
