// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"database/sql"
	"errors"
)

// PostgresCommits, MariaDBCommits and MySQLCommits lock nothing: each turn is two commits of one row,
// which is what a lock and an unlock with a durable token cost at the least.
var (
	PostgresCommits = &Candidate{Name: "bare-pg-commits", Server: "postgres", Settings: commitsSettings, Open: openCommits}
	MariaDBCommits  = &Candidate{Name: "bare-mariadb-commits", Server: "mariadb", Settings: commitsSettings, Open: openCommits}
	MySQLCommits    = &Candidate{Name: "bare-mysql-commits", Server: "mysql", Settings: commitsSettings, Open: openCommits}
)

const commitsSettings = "two updates of one row, prepared, a commit each"

func openCommits(ctx context.Context, at Place, n int) ([]Locker, error) {
	var lockers []Locker
	for range n {
		db, err := openSQL(at.Addr)
		if err != nil {
			closeAll(lockers)
			return nil, err
		}
		c := &commits{db: db}
		for _, text := range []string{"DROP TABLE IF EXISTS bare", "CREATE TABLE bare (n bigint)", "INSERT INTO bare VALUES (0)"} {
			if _, e := db.ExecContext(ctx, text); e != nil {
				err = errors.Join(err, e)
			}
		}
		if err == nil {
			c.update, err = db.PrepareContext(ctx, "UPDATE bare SET n = n + 1")
		}
		lockers = append(lockers, c)
		if err != nil {
			closeAll(lockers)
			return nil, err
		}
	}
	return lockers, nil
}

type commits struct {
	db     *sql.DB
	update *sql.Stmt
}

// Do implements Locker.
func (c *commits) Do(ctx context.Context, _ string, section func()) error {
	ctx = context.WithoutCancel(ctx)
	if _, err := c.update.ExecContext(ctx); err != nil {
		return err
	}
	if section != nil {
		section()
	}
	_, err := c.update.ExecContext(ctx)
	return err
}

// Hold implements Locker.
func (c *commits) Hold(context.Context, string) error { return errors.ErrUnsupported }

// Close implements Locker.
func (c *commits) Close() { _ = c.db.Close() }
