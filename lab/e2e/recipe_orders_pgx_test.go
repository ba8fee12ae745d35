// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence/pgxfence"
	"github.com/fencelock/fencelock/internal/must"
)

// pgxOrders is the worker that packs orders, with pgx.
type pgxOrders struct {
	locks *fencelock.Client
	pool  *pgxpool.Pool
	guard *pgxfence.Table                             // pgxfence.NewTable(nil); its table is made by guard.Schema()
	pack  func(ctx context.Context, key string) error // the slow step, which does the work of a key once
}

func (o *pgxOrders) process(ctx context.Context, id int) error {
	lock := fmt.Sprintf("orders/%d", id)
	return o.locks.Do(ctx, lock, func(ctx context.Context, _ *fencelock.Lease) error {
		// Enter and read, in one round trip.
		var state string
		read := &pgx.Batch{}
		read.Queue("SELECT state FROM orders WHERE id = $1", id).QueryRow(func(row pgx.Row) error { return row.Scan(&state) })
		if err := o.guard.SendBatch(ctx, o.pool, lock, read).Close(); err != nil || state != "new" {
			return err
		}
		if err := o.pack(ctx, lock); err != nil {
			return err
		}
		// errors.Is(err, fence.ErrStale): we are late, and nothing was changed.
		write := &pgx.Batch{}
		write.Queue("UPDATE orders SET state = 'packed' WHERE id = $1", id)
		write.Queue("INSERT INTO parcels (order_id) VALUES ($1)", id)
		return o.guard.SendBatch(ctx, o.pool, lock, write).Close()
	})
}

func TestRecipeOrdersPgx(t *testing.T) {
	e := need(t, postgres)
	pool, err := pgxpool.New(t.Context(), "postgres://postgres@"+e.server.Addr+"/postgres?sslmode=disable")
	must.OK(t, err)
	defer pool.Close()
	guard, err := pgxfence.NewTable(nil)
	must.OK(t, err)
	testOrders(t, e, func(locks *fencelock.Client, pack func(context.Context, string) error) func(context.Context, int) error {
		return (&pgxOrders{locks, pool, guard, pack}).process
	})
}
