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

// openCommits opens lockers that commit twice.
var openCommits = each(func(ctx context.Context, addr string) (Locker, error) { return openRow(ctx, addr) })

// openRow prepares an update of a row, which all who open it share.
func openRow(ctx context.Context, addr string) (*row, error) {
	db, err := openSQL(addr)
	if err != nil {
		return nil, err
	}
	for _, text := range []string{"CREATE TABLE IF NOT EXISTS bare (id bigint PRIMARY KEY, n bigint)", "DELETE FROM bare WHERE id = 1", "INSERT INTO bare VALUES (1, 0)"} {
		if _, e := db.ExecContext(ctx, text); e != nil {
			err = errors.Join(err, e)
		}
	}
	r := &row{db: db}
	if err == nil {
		r.update, err = db.PrepareContext(ctx, "UPDATE bare SET n = n + 1 WHERE id = 1")
	}
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return r, nil
}

// row is a locker that locks nothing.
type row struct {
	db     *sql.DB
	update *sql.Stmt
}

func (r *row) commit(ctx context.Context) error {
	_, err := r.update.ExecContext(context.WithoutCancel(ctx))
	return err
}

// Lock implements Locker.
func (r *row) Lock(ctx context.Context, _ string) (Held, error) { return r, r.commit(ctx) }

// Unlock implements Held.
func (r *row) Unlock(ctx context.Context) error { return r.commit(ctx) }

// Close implements Locker.
func (r *row) Close() { _ = r.db.Close() }

// withCommit returns a native lock whose holders commit one row each.
func withCommit(native *Candidate) *Candidate {
	c := *native
	c.Name, c.Settings = native.Name+"-and-commit", native.Settings+"; an update of one row, prepared, with its commit, before each section"
	c.Open = each(func(ctx context.Context, addr string) (Locker, error) {
		l, err := native.One(ctx, addr)
		if err != nil {
			return nil, err
		}
		r, err := openRow(ctx, addr)
		if err != nil {
			l.Close()
			return nil, err
		}
		return &token{l, r}, nil
	})
	return &c
}

// token is a native lock with a durable token.
type token struct {
	Locker
	row *row
}

// Lock implements Locker.
func (t *token) Lock(ctx context.Context, name string) (Held, error) {
	held, err := t.Locker.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := t.row.commit(ctx); err != nil {
		return nil, errors.Join(err, held.Unlock(ctx))
	}
	return held, nil
}

// Close implements Locker.
func (t *token) Close() {
	t.row.Close()
	t.Locker.Close()
}
