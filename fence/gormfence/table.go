// SPDX-License-Identifier: Apache-2.0

package gormfence

import (
	"database/sql"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/sqlfence"
)

// TableOptions are the options of a Table; nil and zero mean the defaults.
type TableOptions = sqlfence.TableOptions

// Table guards whole transactions, whatever they touch, by a table with one fence per lock.
// It is the table of package sqlfence. It is safe for concurrent use and needs no closing.
type Table struct {
	fences *sqlfence.Table
	tx     *sql.TxOptions
}

// NewTable returns a guard for the database of db. It does no I/O; the table must be there when
// it is used, see Schema.
func NewTable(db *gorm.DB, opts *TableOptions) (*Table, error) {
	d, ok := map[string]sqlfence.Dialect{"postgres": sqlfence.PostgreSQL, "mysql": sqlfence.MySQL}[db.Name()]
	if !ok {
		return nil, fmt.Errorf("gormfence: there is no guard for the database %q; use postgres or mysql", db.Name())
	}
	fences, err := sqlfence.NewTable(d, opts)
	if err != nil {
		return nil, err
	}
	g := &Table{fences: fences}
	if opts != nil {
		g.tx = opts.Tx
	}
	return g, nil
}

// Schema returns the statement that creates the table if it is not there.
func (g *Table) Schema() string { return g.fences.Schema() }

// Do raises the fence of lock to the token that the context of db carries, runs f in the same
// transaction, and commits. Use tx for every statement.
//
// If f returns an error the transaction is rolled back and the error returned; then the
// fence has not been raised either. An error that wraps fence.ErrStale, fence.ErrNoToken or
// fence.ErrWrongLock means that f was not run. An error of the commit leaves the outcome
// unknown.
func (g *Table) Do(db *gorm.DB, lock string, f func(tx *gorm.DB) error) error {
	if _, err := fence.FromContext(db.Statement.Context, lock); err != nil {
		return err // before a connection is taken
	}
	if _, begun := db.Statement.ConnPool.(gorm.TxCommitter); begun {
		return errors.New("gormfence: Do begins the transaction, and this is one; call Raise as its first statement")
	}
	ended := false
	err := db.Transaction(func(tx *gorm.DB) error {
		if err := g.Raise(tx, lock); err != nil {
			return err
		}
		err := f(tx)
		ended = err == nil
		return err
	}, g.tx)
	if err != nil && ended {
		return fmt.Errorf("gormfence: commit, outcome unknown: %w", err)
	}
	return err
}

// Raise raises the fence of lock to the token that the context of tx carries, in a
// transaction of the caller's. It must be the first statement of the transaction: what was
// read before it is not guarded. After an error the transaction must be rolled back.
//
// With a db it raises the fence by itself. Do that with the token that
// Client.ForceUnlock returned, to reject a holder whose lease was broken.
func (g *Table) Raise(tx *gorm.DB, lock string) error {
	return g.fences.Raise(tx.Statement.Context, tx.Statement.ConnPool, lock)
}
