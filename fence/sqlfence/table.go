// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fencelock/fencelock/fence"
)

// DefaultTable is the name of the table of fences.
const DefaultTable = "fencelock_fences"

// TableOptions are the options of a Table; nil and zero mean the defaults.
type TableOptions struct {
	// Name of the table, with its schema if need be. Default DefaultTable.
	Name string
	// Tx are the options of the transactions that Do begins.
	Tx *sql.TxOptions
}

// Table guards whole transactions by a table with one fence per lock. It is safe
// for concurrent use and needs no closing.
type Table struct {
	dialect Dialect
	name    string
	tx      *sql.TxOptions
	raise   string
	newest  string
}

// NewTable returns a guard. It does no I/O; the table must be there when it is
// used, see Schema.
func NewTable(d Dialect, opts *TableOptions) (*Table, error) {
	if opts == nil {
		opts = &TableOptions{}
	}
	g := &Table{dialect: d, name: opts.Name, tx: opts.Tx}
	if g.name == "" {
		g.name = DefaultTable
	}
	if err := errors.Join(d.check(), checkNames(map[string]string{"TableOptions.Name": g.name})); err != nil {
		return nil, err
	}
	if d == PostgreSQL {
		g.raise = "INSERT INTO " + g.name + " AS f (lock_name, token, holder) VALUES ($1, $2, $3)" +
			" ON CONFLICT (lock_name) DO UPDATE SET token = EXCLUDED.token, holder = EXCLUDED.holder WHERE f.token <= EXCLUDED.token"
	} else {
		// Assignments go from left to right: holder still sees the old token.
		g.raise = "INSERT INTO " + g.name + " (lock_name, token, holder) VALUES (?, LAST_INSERT_ID(?), ?)" +
			" ON DUPLICATE KEY UPDATE holder = IF(token <= ?, ?, holder), token = LAST_INSERT_ID(GREATEST(token, ?))"
	}
	g.newest = "SELECT token, holder FROM " + g.name + " WHERE lock_name = " + d.arg(1)
	return g, nil
}

// Schema returns the statement that creates the table if it is not there. Names
// are compared byte by byte: two locks must not share a fence because their
// names differ in case or in trailing blanks only.
func (g *Table) Schema() string {
	if g.dialect == PostgreSQL {
		return "CREATE TABLE IF NOT EXISTS " + g.name +
			` (lock_name text COLLATE "C" PRIMARY KEY, token bigint NOT NULL, holder text NOT NULL)`
	}
	return "CREATE TABLE IF NOT EXISTS " + g.name +
		" (lock_name VARBINARY(512) PRIMARY KEY, token BIGINT NOT NULL, holder VARBINARY(1024) NOT NULL) ENGINE=InnoDB"
}

// Do raises the fence of lock to the token that ctx carries, runs f in the same
// transaction, and commits. It guarantees that f runs only if no newer token of
// the lock has been seen, and that no older one is admitted until the
// transaction has ended, or ever after if it was committed.
//
// If f returns an error the transaction is rolled back and the error returned;
// then the fence has not been raised either. An error that wraps
// fence.ErrStale, fence.ErrNoToken or fence.ErrWrongLock means that f was not
// run. An error of the commit leaves the outcome unknown.
func (g *Table) Do(ctx context.Context, db *sql.DB, lock string, f func(ctx context.Context, tx *sql.Tx) error) error {
	if _, err := fence.FromContext(ctx, lock); err != nil {
		return err // before a connection is taken
	}
	tx, err := db.BeginTx(ctx, g.tx)
	if err != nil {
		return fmt.Errorf("sqlfence: begin: %w", err)
	}
	defer tx.Rollback() // returns ErrTxDone after the commit; runs even when f panics
	if err := g.Raise(ctx, tx, lock); err != nil {
		return err
	}
	if err := f(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("sqlfence: commit, outcome unknown: %w", err)
	}
	return nil
}

// Raise raises the fence of lock to the token that ctx carries, in a transaction
// of the caller's. It must be the first statement of the transaction: what was
// read before it is not guarded. After an error the transaction must be rolled
// back.
//
// With a *sql.DB it raises the fence by itself. Do that with the token that
// Client.ForceUnlock returned, to fence a broken holder off.
func (g *Table) Raise(ctx context.Context, tx Querier, lock string) error {
	m, err := fence.FromContext(ctx, lock)
	if err != nil {
		return err
	}
	query, args := g.Statement(m)
	res, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("sqlfence: raise the fence in %s: %w", g.name, err)
	}
	ok, err := g.dialect.admitted(res, m)
	if err != nil {
		return fmt.Errorf("sqlfence: the driver does not report how many rows changed, so it is unknown whether the fence was raised: %w", err)
	}
	if ok {
		return nil
	}
	kept := fence.Mark{Lock: lock}
	if err := tx.QueryRowContext(ctx, g.newest, lock).Scan(&kept.Token, &kept.Holder); err != nil {
		return &fence.StaleError{Given: m} // refused, and the newer mark is unknown
	}
	return refusal(kept, m)
}

// Statement returns the statement with which Raise raises the fence to a mark, for other
// libraries than database/sql. With PostgreSQL it changes a row if the mark is admitted,
// and none if a newer token was there; the arguments are the lock, the token and the holder.
func (g *Table) Statement(m fence.Mark) (query string, args []any) {
	args = []any{m.Lock, int64(m.Token), m.Holder}
	if g.dialect == MySQL {
		args = append(args, int64(m.Token), m.Holder, int64(m.Token))
	}
	return g.raise, args
}

// refusal names the newer mark, if what was read afterwards is newer. It need not
// be: a transaction may read an older state than the one its writes met.
func refusal(kept, given fence.Mark) error {
	if kept.Token <= given.Token {
		kept = fence.Mark{}
	}
	return &fence.StaleError{Given: given, Newer: kept}
}
