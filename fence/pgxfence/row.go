// SPDX-License-Identifier: Apache-2.0

package pgxfence

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/fencelock/fencelock/fence/sqlfence"
)

// RowOptions define where the guarded rows and their fences are.
type RowOptions = sqlfence.RowOptions

// Row guards rows by a column that holds the newest token. The column does not hold the
// lock's name, so every process must name the same lock for a row. A Row is safe for
// concurrent use and need not be closed.
type Row struct{ rows *sqlfence.Row }

// NewRow returns a guard. It does no I/O.
func NewRow(opts *RowOptions) (*Row, error) {
	rows, err := sqlfence.NewRow(sqlfence.PostgreSQL, opts)
	if err != nil {
		return nil, err
	}
	return &Row{rows}, nil
}

// Raise raises the fence of a row to the token of lock that ctx carries. Do it before the
// row is read. In a transaction it also keeps the row locked.
//
// It returns an error that wraps fence.ErrStale if a newer token was there, and
// pgx.ErrNoRows if there is no such row.
func (r *Row) Raise(ctx context.Context, db Querier, lock string, key any) error {
	return r.rows.RaiseOn(ctx, database{db}, lock, key)
}

// Update changes a row if the token of lock that ctx carries is not older than the newest
// that the row has seen, and raises its fence, in one statement. set is the list of
// assignments, with placeholders from $1 on, and args are their values:
//
//	row.Update(ctx, pool, "orders/42", 42, "total = $1, state = $2", 110, "paid")
//
// It returns an error that wraps fence.ErrStale if it was rejected, and pgx.ErrNoRows if
// there is no such row. Outside of a transaction any other error leaves the outcome unknown.
func (r *Row) Update(ctx context.Context, db Querier, lock string, key any, set string, args ...any) error {
	return r.rows.UpdateOn(ctx, database{db}, lock, key, set, args...)
}

// Check reads from the catalog of the database whether the columns suit the guard: the fence
// must be a BIGINT, and the key must have a unique index. It returns an error that names
// the column if they do not. Call it when the program starts, or in a test of your schema.
func (r *Row) Check(ctx context.Context, db Querier) error { return r.rows.CheckOn(ctx, database{db}) }

// database is a sqlfence.Database of pgx.
type database struct{ db Querier }

// Exec implements sqlfence.Database.
func (d database) Exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := d.db.Exec(ctx, query, args...)
	return driver.RowsAffected(tag.RowsAffected()), err
}

// QueryRow implements sqlfence.Database.
func (d database) QueryRow(ctx context.Context, query string, args ...any) interface{ Scan(dest ...any) error } {
	return d.db.QueryRow(ctx, query, args...)
}
