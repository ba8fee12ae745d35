// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/sqlfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// setUp makes the guard, once per program, and its table.
func setUp(ctx context.Context, db *sql.DB) (*sqlfence.Table, error) {
	guard, err := sqlfence.NewTable(sqlfence.PostgreSQL, nil)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, guard.Schema()) // or in your migrations
	return guard, err
}

// pay adds to the total of an order. Lock and fence have the same name.
func pay(ctx context.Context, locks *fencelock.Client, db *sql.DB, guard *sqlfence.Table, order string, cents int) error {
	return locks.Do(ctx, order, func(ctx context.Context, _ *fencelock.Lease) error {
		return guard.Do(ctx, db, order, func(ctx context.Context, tx *sql.Tx) error {
			var total int
			if err := tx.QueryRowContext(ctx, "SELECT total FROM orders WHERE id = $1", order).Scan(&total); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE orders SET total = $1 WHERE id = $2", total+cents, order)
			return err
		})
	})
}

// finish needs no transaction: it changes one row, which has a column fence.
func finish(ctx context.Context, db *sql.DB, job string) error {
	row, err := sqlfence.NewRow(sqlfence.PostgreSQL, &sqlfence.RowOptions{Table: "jobs", Key: "id"})
	if err != nil {
		return err
	}
	if err := row.Raise(ctx, db, job, job); err != nil { // the lock, and the key; before you read
		return err
	}
	// ... read, work ...
	return row.Update(ctx, db, job, job, "state = $1", "finished")
}

// TestTheExamplesOfTheDocumentation runs them as they are printed there.
func TestTheExamplesOfTheDocumentation(t *testing.T) {
	e := need(t, postgres)
	ctx := t.Context()
	guard, err := setUp(ctx, e.db)
	must.OK(t, err)
	const order, job = "orders/42", "jobs/7"
	for _, statement := range []string{
		"CREATE TABLE orders (id text PRIMARY KEY, total int NOT NULL)", "INSERT INTO orders VALUES ('orders/42', 100)",
		"CREATE TABLE jobs (id text PRIMARY KEY, state text, fence bigint)", "INSERT INTO jobs VALUES ('jobs/7', 'begun')",
	} {
		if _, err := e.db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = e.db.Exec("DROP TABLE orders, jobs") })
	locks, err := fencelock.New(memstore.New(nil), nil)
	must.OK(t, err)
	defer locks.Close(ctx)
	if err := pay(ctx, locks, e.db, guard, order, 10); err != nil {
		t.Error(err)
	}
	if err := finish(ctx, e.db, job); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("outside of the lock: got %v", err)
	}
	err = locks.Do(ctx, job, func(ctx context.Context, _ *fencelock.Lease) error { return finish(ctx, e.db, job) })
	if err != nil {
		t.Error(err)
	}
	var total int
	var state string
	if err := e.db.QueryRowContext(ctx, "SELECT total, state FROM orders, jobs").Scan(&total, &state); err != nil || total != 110 || state != "finished" {
		t.Errorf("order and job: %d, %s, %v", total, state, err)
	}
	late := fence.With(fence.With(ctx, fence.Mark{Lock: order, Token: 1}), fence.Mark{Lock: job, Token: 1})
	for what, err := range map[string]error{
		"row":   finish(late, e.db, job),
		"table": guard.Raise(late, e.db, order),
	} {
		if !errors.Is(err, fence.ErrStale) {
			t.Errorf("%s, too late: got %v", what, err)
		}
	}
}
