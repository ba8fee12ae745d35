// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/go-sql-driver/mysql"
)

var errOldGone = errors.New("the database no longer has it")

// withGetLock does the work while holding fencelock's lock and GET_LOCK of MySQL or
// MariaDB. That lock belongs to a connection, so the connection is kept.
func withGetLock(ctx context.Context, locks *fencelock.Client, db *sql.DB, name string, do work) error {
	return locks.Do(ctx, name, func(ctx context.Context, l *fencelock.Lease) (err error) {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		yes := func(ctx context.Context, query string) (bool, error) {
			var got sql.NullBool
			err := conn.QueryRowContext(ctx, query, name).Scan(&got)
			return got.Bool, err
		}
		for got := false; !got; {
			if got, err = yes(ctx, "SELECT GET_LOCK(?, 1)"); err != nil {
				return err
			}
		}
		held, stop := keep(ctx, 5*time.Second, func(ctx context.Context) error {
			mine, err := yes(ctx, "SELECT IS_USED_LOCK(?) = CONNECTION_ID()")
			if err == nil && !mine {
				err = errOldGone
			}
			return err
		})
		defer func() {
			stop()
			_, uerr := yes(context.WithoutCancel(ctx), "SELECT RELEASE_LOCK(?)")
			err = errors.Join(err, uerr)
		}()
		return do(held, l)
	})
}

// withMethodLock does the work while holding fencelock's lock and a row of a table with
// a unique index. The row outlives its process: only a DELETE frees it.
func withMethodLock(ctx context.Context, locks *fencelock.Client, db *sql.DB, name string, do work) error {
	return locks.Do(ctx, name, func(ctx context.Context, l *fencelock.Lease) (err error) {
		owner := rand.Text()
		for {
			_, err = db.ExecContext(ctx, "INSERT INTO methodLock (method_name, `desc`) VALUES (?, ?)", name, owner)
			var taken *mysql.MySQLError
			if !errors.As(err, &taken) || taken.Number != 1062 { // duplicate key
				break
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err != nil {
			return err // the row may be there; see the page
		}
		held, stop := keep(ctx, 5*time.Second, func(ctx context.Context) error {
			var mine int
			return db.QueryRowContext(ctx, "SELECT 1 FROM methodLock WHERE method_name = ? AND `desc` = ?", name, owner).Scan(&mine)
		})
		defer func() {
			stop()
			_, derr := db.ExecContext(context.WithoutCancel(ctx), "DELETE FROM methodLock WHERE method_name = ? AND `desc` = ?", name, owner)
			err = errors.Join(err, derr)
		}()
		return do(held, l)
	})
}

// withRowLock does the work while holding fencelock's lock and a row of a table, locked
// by SELECT … FOR UPDATE in a transaction that stays open. The row must exist.
func withRowLock(ctx context.Context, locks *fencelock.Client, db *sql.DB, name string, do work) error {
	return locks.Do(ctx, name, func(ctx context.Context, l *fencelock.Lease) (err error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // frees the row; nothing was written
		for {
			var id int
			err = tx.QueryRowContext(ctx, "SELECT id FROM methodLock WHERE method_name = ? FOR UPDATE", name).Scan(&id)
			var late *mysql.MySQLError
			if !errors.As(err, &late) || late.Number != 1205 { // waited for innodb_lock_wait_timeout
				break
			}
		}
		if err != nil {
			return err
		}
		held, stop := keep(ctx, 5*time.Second, func(ctx context.Context) error {
			_, err := tx.ExecContext(ctx, "DO 1") // fails when the connection is gone, and the row lock with it
			return err
		})
		defer stop()
		return do(held, l)
	})
}
