// SPDX-License-Identifier: Apache-2.0

//go:build unix

package guarded

import (
	"context"
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/sqlfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// The value is a row, with a column for the guards that need one.
const (
	createValue = "CREATE TABLE guarded (id BIGINT PRIMARY KEY, v VARCHAR(100) NOT NULL, fence BIGINT)"
	insertValue = "INSERT INTO guarded (id, v) VALUES (1, '')"
	readSQL     = "SELECT v FROM guarded WHERE id = 1"
	writeSQL    = "UPDATE guarded SET v = $1 WHERE id = 1"
)

// startPostgres starts PostgreSQL with the row and the table of fences.
func startPostgres(t *testing.T) string {
	t.Helper()
	server := servers.Test(t, func() (*servers.Server, error) { return servers.Postgres() })
	url := "postgres://postgres@" + server.Addr + "/postgres?sslmode=disable"
	db, err := sql.Open("pgx", url)
	must.OK(t, err)
	defer db.Close()
	table, err := sqlfence.NewTable(sqlfence.PostgreSQL, nil)
	must.OK(t, err)
	for _, statement := range []string{createValue, insertValue, table.Schema()} {
		_, err := db.ExecContext(t.Context(), statement)
		must.OK(t, err)
	}
	return url
}

func readRow(ctx context.Context, q sqlfence.Querier) (v string, err error) {
	err = q.QueryRowContext(ctx, readSQL).Scan(&v)
	return v, err
}

var sqlTable = guard{"sqlfence-table", startPostgres, func(_ context.Context, url string) (*fencetest.Value, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	table, err := sqlfence.NewTable(sqlfence.PostgreSQL, nil)
	if err != nil {
		return nil, err
	}
	return &fencetest.Value{
		Enter: func(ctx context.Context) (v string, err error) {
			err = table.Do(ctx, db, lock, func(ctx context.Context, tx *sql.Tx) error {
				v, err = readRow(ctx, tx)
				return err
			})
			return v, err
		},
		Write: func(ctx context.Context, v string) error {
			return table.Do(ctx, db, lock, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, writeSQL, v)
				return err
			})
		},
		Read: func(ctx context.Context) (string, error) { return readRow(ctx, db) },
	}, nil
}}

// noGuard is what most programs do.
var noGuard = guard{"no-guard", startPostgres, func(_ context.Context, url string) (*fencetest.Value, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	read := func(ctx context.Context) (string, error) { return readRow(ctx, db) }
	return &fencetest.Value{Enter: read, Read: read, Write: func(ctx context.Context, v string) error {
		_, err := db.ExecContext(ctx, writeSQL, v)
		return err
	}}, nil
}}
