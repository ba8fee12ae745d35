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

// AdvisoryLockCommit, GetLockCommit and GetLockMySQLCommit are the locks of the databases, and
// each holder commits one row before its section: the least that a lock with a durable token
// costs, if its waiters are woken as the database wakes its own.
var (
	AdvisoryLockCommit = withCommit(AdvisoryLock)
	GetLockCommit      = withCommit(GetLock)
	GetLockMySQLCommit = withCommit(GetLockMySQL)
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

// withCommit returns a native lock whose holders commit one row each.
func withCommit(native *Candidate) *Candidate {
	c := *native
	c.Name, c.Settings = native.Name+"-and-commit", native.Settings+"; an update of one row, prepared, with its commit, before each section"
	c.Open = func(ctx context.Context, at Place, n int) ([]Locker, error) {
		lockers, err := native.Open(ctx, at, n)
		if err != nil {
			return nil, err
		}
		for i := range lockers {
			one, err := openToken(ctx, at, lockers[i])
			if err != nil {
				closeAll(lockers)
				return nil, err
			}
			lockers[i] = one
		}
		return lockers, nil
	}
	return &c
}

func openToken(ctx context.Context, at Place, native Locker) (*token, error) {
	db, err := openSQL(at.Addr)
	if err != nil {
		return nil, err
	}
	t := &token{Locker: native, db: db}
	for _, text := range []string{"CREATE TABLE IF NOT EXISTS token (id bigint PRIMARY KEY, n bigint)", "DELETE FROM token WHERE id = 1", "INSERT INTO token VALUES (1, 0)"} {
		if _, e := db.ExecContext(ctx, text); e != nil {
			err = errors.Join(err, e)
		}
	}
	if err == nil {
		t.update, err = db.PrepareContext(ctx, "UPDATE token SET n = n + 1 WHERE id = 1")
	}
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return t, nil
}

// token is a native lock with a durable token.
type token struct {
	Locker
	db     *sql.DB
	update *sql.Stmt
}

// Do implements Locker.
func (t *token) Do(ctx context.Context, name string, section func()) error {
	var failed error
	err := t.Locker.Do(ctx, name, func() {
		if _, failed = t.update.ExecContext(context.WithoutCancel(ctx)); failed == nil && section != nil {
			section()
		}
	})
	return errors.Join(err, failed)
}

// Close implements Locker.
func (t *token) Close() {
	_ = t.db.Close()
	t.Locker.Close()
}
