// SPDX-License-Identifier: Apache-2.0

// Package inventory moves stock between warehouses.
package inventory

import (
	"context"
	"log"
	"net/http"
	"sync"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

type Warehouse struct {
	store driver.Store
	locks *fencelock.Client

	mu       sync.Mutex
	reserved map[string]*fencelock.Lease
}

func (w *Warehouse) move(ctx context.Context, from, to string, n int) error { return nil }
func (w *Warehouse) count(ctx context.Context, shelf string) (int, error)   { return 0, nil }

// Move locks both shelves.
func (w *Warehouse) Move(ctx context.Context, from, to string, n int) error {
	both, err := w.locks.LockAll(ctx, []string{from, to}) // misuse: leaseleak
	if err != nil {
		return err
	}
	have, err := w.count(both.Context(), from)
	if err != nil {
		_ = both.Unlock(ctx)
		return err
	}
	if have < n {
		log.Printf("only %d on shelf %s", have, from)
		return nil
	}
	if err := w.move(both.Context(), from, to, n); err != nil {
		_ = both.Unlock(ctx)
		return err
	}
	return both.Unlock(ctx)
}

// Reserve keeps the lock of a shelf until Free.
func (w *Warehouse) Reserve(ctx context.Context, shelf string) error {
	l, err := w.locks.Mutex(shelf).TryLock(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reserved == nil {
		w.reserved = make(map[string]*fencelock.Lease)
	}
	w.reserved[shelf] = l // misuse: leasectx
	return nil
}

// Free gives the lock of a shelf back.
func (w *Warehouse) Free(ctx context.Context, shelf string) error {
	w.mu.Lock()
	l, ok := w.reserved[shelf]
	delete(w.reserved, shelf)
	w.mu.Unlock()
	if !ok {
		return nil
	}
	return l.Unlock(ctx)
}

// ServeHTTP makes a client for every request.
func (w *Warehouse) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	locks, err := fencelock.New(w.store, &fencelock.Options{Owner: r.RemoteAddr}) // misuse: clientperrequest
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	defer locks.Close(r.Context())
	err = locks.Do(r.Context(), r.PathValue("shelf"), func(ctx context.Context, l *fencelock.Lease) error {
		return w.move(r.Context(), r.PathValue("shelf"), "out", 1) // misuse: outerctx
	})
	if err != nil {
		http.Error(rw, err.Error(), http.StatusConflict)
	}
}

// Stocktaking counts all shelves in the background.
func (w *Warehouse) Stocktaking(ctx context.Context, shelves []string) error {
	lease, err := w.locks.Mutex("stocktaking").Lock(ctx)
	if err != nil {
		return err
	}
	go func() { // misuse: leasectx
		defer func() {
			if err := lease.Unlock(context.Background()); err != nil {
				log.Print(err)
			}
		}()
		for _, s := range shelves {
			if _, err := w.count(context.Background(), s); err != nil {
				log.Print(err)
			}
		}
	}()
	return nil
}
