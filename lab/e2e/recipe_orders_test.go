// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/sqlfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// orders is a worker that packs orders. Each is packed under its lock, and a worker
// that was paused and comes late is refused by the database.
type orders struct {
	locks *fencelock.Client
	db    *sql.DB
	guard *sqlfence.Table // sqlfence.NewTable(sqlfence.PostgreSQL, nil); its table is made by guard.Schema()
	// pack is the slow step, at another service. The key is the same for every
	// attempt on an order: a service that knows it does the work once.
	pack func(ctx context.Context, key string) error
}

func (o *orders) process(ctx context.Context, id int) error {
	lock := fmt.Sprintf("orders/%d", id)
	return o.locks.Do(ctx, lock, func(ctx context.Context, _ *fencelock.Lease) error {
		// Enter, then read: from here on no earlier holder can change the order.
		var state string
		err := o.guard.Do(ctx, o.db, lock, func(ctx context.Context, tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, "SELECT state FROM orders WHERE id = $1", id).Scan(&state)
		})
		if err != nil || state != "new" {
			return err
		}
		// No transaction is open during pack. ctx ends if the lease is lost.
		if err := o.pack(ctx, lock); err != nil {
			return err
		}
		// errors.Is(err, fence.ErrStale): we are late, and nothing was changed.
		return o.guard.Do(ctx, o.db, lock, func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'packed' WHERE id = $1", id); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO parcels (order_id) VALUES ($1)", id)
			return err
		})
	})
}

// TestRecipeOrders: with database/sql.
func TestRecipeOrders(t *testing.T) {
	e := need(t, postgres)
	db := e.prepared(t)
	defer db.Close()
	testOrders(t, e, func(locks *fencelock.Client, pack func(context.Context, string) error) func(context.Context, int) error {
		return (&orders{locks, db, e.table, pack}).process
	})
}

// testOrders: one worker loses its lock in the slow step and does not know; another packs the
// order; the first comes back and is rejected.
func testOrders(t *testing.T, e *database, worker func(locks *fencelock.Client, pack func(context.Context, string) error) func(context.Context, int) error) {
	t.Helper()
	id := int(e.rows.Add(1)) // another lock in every run of the test
	lock := fmt.Sprintf("orders/%d", id)
	for _, statement := range []string{
		"CREATE TABLE orders (id BIGINT PRIMARY KEY, state VARCHAR(100) NOT NULL, fence BIGINT)",
		"CREATE TABLE parcels (order_id BIGINT NOT NULL)",
		fmt.Sprintf("INSERT INTO orders (id, state) VALUES (%d, 'new')", id),
	} {
		_, err := e.db.ExecContext(t.Context(), statement)
		must.OK(t, err)
	}
	t.Cleanup(func() { _, _ = e.db.Exec("DROP TABLE orders, parcels") }) // others sell, too
	store := memstore.New(&memstore.Options{MaxTTL: 10 * time.Minute})
	packed := newPacking()
	paused, goOn := make(chan struct{}), make(chan struct{})
	slow := worker(longLived(t, store), func(ctx context.Context, key string) error {
		close(paused)
		<-goOn
		return packed.pack(ctx, key)
	})
	locks := longLived(t, store)
	quick := worker(locks, packed.pack)

	late := make(chan error)
	go func() { late <- slow(t.Context(), id) }()
	select {
	case <-paused:
	case err := <-late:
		t.Fatalf("the first worker got %v before it was paused", err)
	}
	st, err := locks.Inspect(t.Context(), lock)
	if err != nil || len(st.Holders) != 1 {
		t.Fatalf("inspect: %+v, %v", st, err)
	}
	// The loss is made by hand; the slow worker would hear of it at its next renewal.
	_, err = locks.ForceUnlock(t.Context(), lock, st.Holders[0].Token)
	must.OK(t, err)
	must.OK(t, quick(t.Context(), id))
	close(goOn)
	if err := <-late; !errors.Is(err, fence.ErrStale) {
		t.Errorf("the late worker got %v, want fence.ErrStale", err)
	}
	if err := quick(t.Context(), id); err != nil { // the order is packed: nothing happens
		t.Error(err)
	}
	var parcels int
	if err := e.db.QueryRowContext(t.Context(), "SELECT count(*) FROM parcels").Scan(&parcels); err != nil || parcels != 1 || packed.count() != 1 {
		t.Errorf("%d parcels, packed %d times, %v; want 1 and 1", parcels, packed.count(), err)
	}
}

// longLived has a long TTL, so that no renewal reports the loss to a worker during the test.
func longLived(t *testing.T, store driver.Store) *fencelock.Client {
	t.Helper()
	locks, err := fencelock.New(store, &fencelock.Options{TTL: 10 * time.Minute})
	must.OK(t, err)
	t.Cleanup(func() { _ = locks.Close(context.Background()) }) // the store is gone with the test
	return locks
}

// packing is a service that does the work of a key once.
type packing struct {
	mu   sync.Mutex
	done map[string]bool
}

func newPacking() *packing { return &packing{done: map[string]bool{}} }

func (p *packing) pack(_ context.Context, key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[key] = true
	return nil
}

func (p *packing) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.done)
}
