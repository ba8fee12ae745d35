// SPDX-License-Identifier: Apache-2.0

//go:build unix

package articles

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/go-sql-driver/mysql"
)

// onMariaDB returns a database with the table of the articles.
func onMariaDB(t *testing.T) *sql.DB {
	t.Helper()
	server := servers.Test(t, func() (*servers.Server, error) {
		return servers.MariaDB("innodb-flush-log-at-trx-commit=2", "innodb-lock-wait-timeout=1")
	})
	db, err := sql.Open("mysql", fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", server.Port))
	must.OK(t, err)
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec("CREATE TABLE methodLock (id INT AUTO_INCREMENT PRIMARY KEY, method_name VARCHAR(64) NOT NULL UNIQUE, `desc` VARCHAR(1024) NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	return db
}

// reenter takes the lock by a unique index, or by finding itself in the row.
func reenter(t *testing.T, db *sql.DB, name, host string, thread int) bool {
	t.Helper()
	me := fmt.Sprintf("%s thread %d", host, thread)
	_, err := db.ExecContext(t.Context(), "INSERT INTO methodLock (method_name, `desc`) VALUES (?, ?)", name, me)
	if err == nil {
		return true
	}
	var taken *mysql.MySQLError
	if !errors.As(err, &taken) || taken.Number != 1062 { // duplicate key
		t.Fatal(err)
	}
	var holder string
	must.OK(t, db.QueryRowContext(t.Context(), "SELECT `desc` FROM methodLock WHERE method_name = ?", name).Scan(&holder))
	return holder == me
}

// TestLockTable: both recipes of a lock table let two clients in.
func TestLockTable(t *testing.T) {
	t.Parallel()
	db := onMariaDB(t)
	t.Run("re-entry by host and thread", func(t *testing.T) {
		// Threads are numbered in each process, so two processes of a host have the same numbers.
		if !reenter(t, db, "a", "web-3", 1) || reenter(t, db, "a", "web-4", 1) {
			t.Fatal("the first does not hold the lock, or a second host does")
		}
		if !reenter(t, db, "a", "web-3", 1) {
			t.Error("a second process of the host did not enter")
		}
	})
	t.Run("for update without a row", func(t *testing.T) {
		lock := func() error {
			tx, err := db.BeginTx(t.Context(), nil)
			must.OK(t, err)
			t.Cleanup(func() { _ = tx.Rollback() })
			var id int
			return tx.QueryRowContext(t.Context(), "SELECT id FROM methodLock WHERE method_name = 'b' FOR UPDATE").Scan(&id)
		}
		// The recipe takes an empty result for the lock. MariaDB locks the gap, and two such
		// locks do not exclude each other.
		for i := range 2 {
			if err := lock(); !errors.Is(err, sql.ErrNoRows) {
				t.Fatalf("client %d got %v, want no row and no wait", i, err)
			}
		}
	})
}
