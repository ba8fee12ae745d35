// SPDX-License-Identifier: Apache-2.0

//go:build unix

package guarded

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/pgxfence"
)

// openPgx makes what all guards of pgx need, and reads past them.
func openPgx(ctx context.Context, url string) (*pgxpool.Pool, *pgxfence.Table, *fencetest.Value, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, nil, nil, err
	}
	table, err := pgxfence.NewTable(nil)
	return pool, table, &fencetest.Value{Read: func(ctx context.Context) (v string, err error) {
		err = pool.QueryRow(ctx, readSQL).Scan(&v)
		return v, err
	}}, err
}

var pgxTable = guard{"pgxfence-table", startPostgres, func(ctx context.Context, url string) (*fencetest.Value, error) {
	pool, table, value, err := openPgx(ctx, url)
	if err != nil {
		return nil, err
	}
	value.Enter = func(ctx context.Context) (v string, err error) {
		err = table.Do(ctx, pool, lock, func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, readSQL).Scan(&v) })
		return v, err
	}
	value.Write = func(ctx context.Context, v string) error {
		return table.Do(ctx, pool, lock, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, writeSQL, v)
			return err
		})
	}
	return value, nil
}}

var pgxBatch = guard{"pgxfence-batch", startPostgres, func(ctx context.Context, url string) (*fencetest.Value, error) {
	pool, table, value, err := openPgx(ctx, url)
	if err != nil {
		return nil, err
	}
	value.Enter = func(ctx context.Context) (v string, err error) {
		b := &pgx.Batch{}
		b.Queue(readSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&v) })
		err = table.SendBatch(ctx, pool, lock, b).Close()
		return v, err
	}
	value.Write = func(ctx context.Context, v string) error {
		b := &pgx.Batch{}
		b.Queue(writeSQL, v)
		return table.SendBatch(ctx, pool, lock, b).Close()
	}
	return value, nil
}}

var pgxRow = guard{"pgxfence-row", startPostgres, func(ctx context.Context, url string) (*fencetest.Value, error) {
	pool, _, value, err := openPgx(ctx, url)
	if err != nil {
		return nil, err
	}
	row, err := pgxfence.NewRow(&pgxfence.RowOptions{Table: "guarded", Key: "id"})
	if err != nil {
		return nil, err
	}
	value.Enter = func(ctx context.Context) (string, error) {
		if err := row.Raise(ctx, pool, lock, 1); err != nil {
			return "", err
		}
		return value.Read(ctx)
	}
	value.Write = func(ctx context.Context, v string) error { return row.Update(ctx, pool, lock, 1, "v = $1", v) }
	return value, nil
}}
