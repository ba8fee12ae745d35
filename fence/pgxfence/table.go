// SPDX-License-Identifier: Apache-2.0

package pgxfence

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/sqlfence"
)

// Beginner begins transactions: *pgxpool.Pool, *pgxpool.Conn and *pgx.Conn do.
type Beginner interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// Querier is what a guard needs of a transaction: pgx.Tx has it, and pools and connections have
// it, too.
type Querier interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// Batcher sends batches: pools, connections and transactions do.
type Batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// TableOptions are the options of a Table; nil and zero mean the defaults.
type TableOptions struct {
	// Name of the table, with its schema if need be. Default sqlfence.DefaultTable.
	Name string
	// Tx are the options of the transactions that Do begins.
	Tx pgx.TxOptions
}

// Table guards whole transactions and batches by a table with one fence per lock. It is
// safe for concurrent use and needs no closing.
type Table struct {
	fences *sqlfence.Table
	name   string
	tx     pgx.TxOptions
}

// NewTable returns a guard. It does no I/O; the table must be there when it is used, see
// Schema.
func NewTable(opts *TableOptions) (*Table, error) {
	if opts == nil {
		opts = &TableOptions{}
	}
	name := opts.Name
	if name == "" {
		name = sqlfence.DefaultTable
	}
	fences, err := sqlfence.NewTable(sqlfence.PostgreSQL, &sqlfence.TableOptions{Name: name})
	if err != nil {
		return nil, err
	}
	return &Table{fences, name, opts.Tx}, nil
}

// Schema returns the statement that creates the table if it is not there. It is the table
// of package sqlfence.
func (g *Table) Schema() string { return g.fences.Schema() }

// Do raises the fence of lock to the token that ctx carries, runs f in the same
// transaction, and commits.
//
// If f returns an error the transaction is rolled back and the error returned; then the
// fence has not been raised either. An error that wraps fence.ErrStale, fence.ErrNoToken or
// fence.ErrWrongLock means that f was not run. An error of the commit leaves the outcome
// unknown, unless it wraps pgx.ErrTxCommitRollback: then nothing was changed.
func (g *Table) Do(ctx context.Context, db Beginner, lock string, f func(ctx context.Context, tx pgx.Tx) error) error {
	if _, err := fence.FromContext(ctx, lock); err != nil {
		return err // before a connection is taken
	}
	tx, err := db.BeginTx(ctx, g.tx)
	if err != nil {
		return fmt.Errorf("pgxfence: begin: %w", err)
	}
	defer rollback(ctx, tx) // does nothing after the commit; runs even when f panics
	if err := g.Raise(ctx, tx, lock); err != nil {
		return err
	}
	if err := f(ctx, tx); err != nil {
		return err
	}
	err = tx.Commit(ctx)
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return fmt.Errorf("pgxfence: a statement had failed, and nothing was changed: %w", err)
	}
	if err != nil {
		return fmt.Errorf("pgxfence: commit, outcome unknown: %w", err)
	}
	return nil
}

// rollback gives the connection back. With the context of a lost lease, which has ended, pgx
// would close the connection instead: every loss would cost the pool a connection.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = tx.Rollback(ctx)
}

// Raise raises the fence of lock to the token that ctx carries, in a transaction of the
// caller's. It must be the first statement of the transaction: what was read before it is
// not guarded. After an error the server refuses all other statements of the transaction.
//
// With a pool it raises the fence by itself. Do that with the token that
// Client.ForceUnlock returned, to reject a holder whose lease was broken.
func (g *Table) Raise(ctx context.Context, tx Querier, lock string) error {
	m, err := fence.FromContext(ctx, lock)
	if err != nil {
		return err
	}
	query, args := g.statement(m)
	if _, err = tx.Exec(ctx, query, args...); err != nil {
		return g.failure(err, m)
	}
	return nil
}

// newer begins what the server quotes in its error. It is in the log of the server, too.
const newer = "fencelock: a newer token was seen: "

// statement raises the fence, or fails. A batch needs a statement that fails: its other
// statements have run before anybody could look at a number of rows. Of the expressions
// that fail, a cast is the one whose error quotes its value, so that it can name the newer
// token. The statement may see an older state than the one its insert met, if it waited for
// the row; then the newer token is not named.
func (g *Table) statement(m fence.Mark) (string, []any) {
	raise, args := g.fences.Statement(m)
	return "WITH raised AS (" + raise + " RETURNING 1) SELECT CASE WHEN EXISTS (SELECT FROM raised) THEN 1" +
		" ELSE CAST('" + newer + "' || COALESCE((SELECT token || ' ' || holder FROM " + g.name + " WHERE lock_name = $1), '') || ';' AS bigint) END", args
}

// failure returns the error of the statement for the caller.
func (g *Table) failure(err error, given fence.Mark) error {
	if stale := rejection(err, given); stale != nil {
		return stale
	}
	return fmt.Errorf("pgxfence: raise the fence in %s: %w", g.name, err)
}

// rejection returns the error of a rejected statement, or nil if it failed in another way.
func rejection(err error, given fence.Mark) error {
	var server *pgconn.PgError
	if !errors.As(err, &server) || server.Code != "22P02" { // invalid text for a type
		return nil
	}
	_, text, found := strings.Cut(server.Message, newer)
	if !found {
		return nil
	}
	stale := &fence.StaleError{Given: given}
	if i := strings.LastIndexByte(text, ';'); i >= 0 {
		text = text[:i] // what follows depends on the language of the server
	}
	number, holder, _ := strings.Cut(text, " ")
	if token, err := strconv.ParseInt(number, 10, 64); err == nil && token > int64(given.Token) {
		stale.Newer = fence.Mark{Lock: given.Lock, Token: fencelock.Token(token), Holder: holder}
	}
	return stale
}
