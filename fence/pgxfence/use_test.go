// SPDX-License-Identifier: Apache-2.0

package pgxfence_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/pgxfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/memstore"
)

// pay adds to the total of an order. Lock and fence have the same name.
func pay(ctx context.Context, locks *fencelock.Client, pool *pgxpool.Pool, guard *pgxfence.Table, order string, cents int) error {
	return locks.Do(ctx, order, func(ctx context.Context, _ *fencelock.Lease) error {
		return guard.Do(ctx, pool, order, func(ctx context.Context, tx pgx.Tx) error {
			var total int
			if err := tx.QueryRow(ctx, "SELECT total FROM orders WHERE id = $1", order).Scan(&total); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE orders SET total = $1 WHERE id = $2", total+cents, order)
			return err
		})
	})
}

// ship sends a batch, in one round trip: all of it, or nothing if the token is stale.
func ship(ctx context.Context, pool *pgxpool.Pool, guard *pgxfence.Table, order string) error {
	batch := &pgx.Batch{}
	batch.Queue("UPDATE orders SET state = 'shipped' WHERE id = $1", order)
	batch.Queue("INSERT INTO parcels (order_id) VALUES ($1)", order)
	return guard.SendBatch(ctx, pool, order, batch).Close()
}

// TestTheExamplesOfTheDocumentation runs them as they are printed there.
func TestTheExamplesOfTheDocumentation(t *testing.T) {
	p := need(t)
	ctx := t.Context()
	const order = "orders/42"
	for _, statement := range []string{
		"CREATE TABLE orders (id text PRIMARY KEY, total int NOT NULL, state text)", "INSERT INTO orders VALUES ('orders/42', 100)",
		"CREATE TABLE parcels (order_id text NOT NULL)",
	} {
		_, err := p.pool.Exec(ctx, statement)
		must.OK(t, err)
	}
	t.Cleanup(func() { _, _ = p.pool.Exec(context.Background(), "DROP TABLE orders, parcels") })
	locks, err := fencelock.New(memstore.New(nil), nil)
	must.OK(t, err)
	defer locks.Close(ctx)
	must.OK(t, pay(ctx, locks, p.pool, p.table, order, 10))
	must.OK(t, locks.Do(ctx, order, func(ctx context.Context, _ *fencelock.Lease) error { return ship(ctx, p.pool, p.table, order) }))
	if err := ship(ctx, p.pool, p.table, order); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("outside of the lock: got %v", err)
	}
	if err := ship(fence.With(ctx, fence.Mark{Lock: order, Token: 1}), p.pool, p.table, order); !errors.Is(err, fence.ErrStale) {
		t.Errorf("too late: got %v", err)
	}
	var total, parcels int
	var state string
	err = p.pool.QueryRow(ctx, "SELECT total, state, (SELECT count(*) FROM parcels) FROM orders").Scan(&total, &state, &parcels)
	if err != nil || total != 110 || state != "shipped" || parcels != 1 {
		t.Errorf("the order is %d, %s with %d parcels, %v", total, state, parcels, err)
	}
}

func TestExamples(t *testing.T) {
	servers.Example(t, Example, "DATABASE_URL", need(t).url(), "written: true\nstale: true\n")
}
