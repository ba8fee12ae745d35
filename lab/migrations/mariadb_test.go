// SPDX-License-Identifier: Apache-2.0

//go:build unix

package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// onMariaDB returns a database with the table methodLock.
func onMariaDB(t *testing.T) *sql.DB {
	t.Helper()
	server := servers.Test(t, func() (*servers.Server, error) { return servers.MariaDB("innodb-flush-log-at-trx-commit=2") })
	db, err := sql.Open("mysql", fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", server.Port))
	must.OK(t, err)
	t.Cleanup(func() { _ = db.Close() })
	execute(t, db, "CREATE TABLE methodLock (id INT AUTO_INCREMENT PRIMARY KEY, method_name VARCHAR(64) NOT NULL UNIQUE, `desc` VARCHAR(1024) NOT NULL)")
	return db
}

func execute(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

func TestGetLock(t *testing.T) {
	t.Parallel()
	db := onMariaDB(t)
	check(t, &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			return withGetLock(ctx, locks, db, name, do)
		},
		try: func(t *testing.T, name string) func() {
			conn, err := db.Conn(t.Context())
			must.OK(t, err)
			var got bool
			must.OK(t, conn.QueryRowContext(t.Context(), "SELECT GET_LOCK(?, 0)", name).Scan(&got))
			if !got {
				_ = conn.Close()
				return nil
			}
			return func() {
				_, _ = conn.ExecContext(context.Background(), "DO RELEASE_LOCK(?)", name) // the next step finds out
				_ = conn.Close()
			}
		},
		lose: func(t *testing.T, name string) {
			var id int
			must.OK(t, db.QueryRowContext(t.Context(), "SELECT IS_USED_LOCK(?)", name).Scan(&id))
			execute(t, db, fmt.Sprintf("KILL %d", id))
		},
	})
}

func TestMethodLock(t *testing.T) {
	t.Parallel()
	db := onMariaDB(t)
	check(t, &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			return withMethodLock(ctx, locks, db, name, do)
		},
		try: func(t *testing.T, name string) func() {
			if _, err := db.ExecContext(t.Context(), "INSERT INTO methodLock (method_name, `desc`) VALUES (?, 'old')", name); err != nil {
				return nil
			}
			return func() { execute(t, db, "DELETE FROM methodLock WHERE method_name = ?", name) }
		},
		lose: func(t *testing.T, name string) { execute(t, db, "DELETE FROM methodLock WHERE method_name = ?", name) },
	})
}

func TestRowLock(t *testing.T) {
	t.Parallel()
	db := onMariaDB(t)
	execute(t, db, "INSERT INTO methodLock (method_name, `desc`) VALUES ('a', ''), ('b', '')")
	check(t, &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			return withRowLock(ctx, locks, db, name, do)
		},
		try: func(t *testing.T, name string) func() {
			tx, err := db.BeginTx(t.Context(), nil)
			must.OK(t, err)
			var id int
			if tx.QueryRowContext(t.Context(), "SELECT id FROM methodLock WHERE method_name = ? FOR UPDATE NOWAIT", name).Scan(&id) != nil {
				_ = tx.Rollback()
				return nil
			}
			return func() { _ = tx.Rollback() } // the next step finds out
		},
		lose: func(t *testing.T, _ string) {
			var id int
			must.OK(t, db.QueryRowContext(t.Context(), "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx LIMIT 1").Scan(&id))
			execute(t, db, fmt.Sprintf("KILL %d", id))
		},
	})
}
