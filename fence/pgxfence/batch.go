// SPDX-License-Identifier: Apache-2.0

package pgxfence

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fencelock/fencelock/fence"
)

// SendBatch sends a batch whose first statement raises the fence of lock to the token that
// ctx carries. It adds no round trip. The batch runs as a whole or not at all, because
// PostgreSQL runs a batch as one transaction; it must not contain BEGIN or COMMIT.
//
// The results are those of b, without the added statement. If the batch was rejected, each
// of them, and Close, returns an error that wraps fence.ErrStale. As with pgx, call Close
// and look at its error. Any other error after sending leaves the outcome unknown.
//
// With a pgx.Tx the batch must be the first of the transaction.
func (g *Table) SendBatch(ctx context.Context, db Batcher, lock string, b *pgx.Batch) pgx.BatchResults {
	m, err := fence.FromContext(ctx, lock)
	if err != nil {
		return &results{err: err}
	}
	query, args := g.statement(m)
	all := &pgx.Batch{}
	all.Queue(query, args...)
	all.QueuedQueries = append(all.QueuedQueries, b.QueuedQueries...)
	r := &results{BatchResults: db.SendBatch(ctx, all)}
	// The reply to the first statement comes with the others: reading it here costs
	// nothing that the caller would not wait for.
	if _, err := r.BatchResults.Exec(); err != nil {
		r.err = g.failure(err, m)
	}
	return r
}

// results are those of the caller's statements.
type results struct {
	pgx.BatchResults // nil: nothing was sent
	err              error
}

// Exec implements pgx.BatchResults.
func (r *results) Exec() (pgconn.CommandTag, error) {
	if r.err != nil {
		return pgconn.CommandTag{}, r.err
	}
	return r.BatchResults.Exec()
}

// Query implements pgx.BatchResults.
func (r *results) Query() (pgx.Rows, error) {
	if r.err != nil {
		return noRows{err: r.err}, r.err
	}
	return r.BatchResults.Query()
}

// QueryRow implements pgx.BatchResults.
func (r *results) QueryRow() pgx.Row {
	if r.err != nil {
		return noRows{err: r.err}
	}
	return r.BatchResults.QueryRow()
}

// Close implements pgx.BatchResults. The connection is given back also after a rejection.
func (r *results) Close() error {
	if r.BatchResults == nil {
		return r.err
	}
	err := r.BatchResults.Close()
	if r.err != nil {
		return r.err // not what it makes of the statements that were skipped
	}
	return err
}

// noRows are the rows of a batch that was not run. Methods that a later pgx adds to its
// interface are those of a nil interface: nobody asks rows that end at once.
type noRows struct {
	pgx.Rows
	err error
}

// Close implements pgx.Rows.
func (noRows) Close() {}

// Err implements pgx.Rows.
func (r noRows) Err() error { return r.err }

// CommandTag implements pgx.Rows.
func (noRows) CommandTag() pgconn.CommandTag { return pgconn.CommandTag{} }

// FieldDescriptions implements pgx.Rows.
func (noRows) FieldDescriptions() []pgconn.FieldDescription { return nil }

// Next implements pgx.Rows.
func (noRows) Next() bool { return false }

// Scan implements pgx.Rows and pgx.Row.
func (r noRows) Scan(...any) error { return r.err }

// Values implements pgx.Rows.
func (r noRows) Values() ([]any, error) { return nil, r.err }

// RawValues implements pgx.Rows.
func (noRows) RawValues() [][]byte { return nil }

// TypeMap implements pgx.Rows.
func (noRows) TypeMap() *pgtype.Map { return nil }

// Conn implements pgx.Rows.
func (noRows) Conn() *pgx.Conn { return nil }
