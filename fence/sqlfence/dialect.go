// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/fencelock/fencelock/fence"
)

// Dialect is the SQL dialect of a database.
type Dialect int

// The supported dialects.
const (
	PostgreSQL Dialect = iota + 1
	MySQL              // and MariaDB
)

// Querier is what a guard needs of a database: *sql.Tx, *sql.Conn and *sql.DB
// have it.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Database is a connection or a transaction of another library than database/sql, for who
// writes a guard for that library. Package pgxfence has one for pgx.
type Database interface {
	// Exec runs a statement. With PostgreSQL the number of changed rows is asked, with
	// MySQL LastInsertId as well.
	Exec(ctx context.Context, query string, args ...any) (sql.Result, error)
	// QueryRow reads one row. Without a row Scan returns an error that wraps sql.ErrNoRows.
	QueryRow(ctx context.Context, query string, args ...any) interface{ Scan(dest ...any) error }
}

// standard is a Database of database/sql.
type standard struct{ Querier }

// Exec implements Database.
func (s standard) Exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return s.ExecContext(ctx, query, args...)
}

// QueryRow implements Database.
func (s standard) QueryRow(ctx context.Context, query string, args ...any) interface{ Scan(dest ...any) error } {
	return s.QueryRowContext(ctx, query, args...)
}

func (d Dialect) check() error {
	if d != PostgreSQL && d != MySQL {
		return fmt.Errorf("sqlfence: unknown dialect %d; use PostgreSQL or MySQL", d)
	}
	return nil
}

// arg is the n-th argument of a statement, from 1. MySQL's arguments are
// positional, so every use of a value is a separate argument there.
func (d Dialect) arg(n int) string {
	if d == PostgreSQL {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// admitted reports whether the statement found the fence at or below the token.
//
// PostgreSQL counts the rows that the condition let through. MySQL counts, by a
// setting of the driver, those that were changed, and a retry changes nothing;
// so there the statement passes the fence on through LAST_INSERT_ID, which is in
// the same reply: zero if it found no row.
func (d Dialect) admitted(res sql.Result, m fence.Mark) (bool, error) {
	if d == PostgreSQL {
		n, err := res.RowsAffected()
		return n > 0, err
	}
	seen, err := res.LastInsertId()
	return seen == int64(m.Token), err
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// checkNames refuses what cannot stand in a statement as it is. It names all of them.
func checkNames(names map[string]string) error {
	var errs []error
	for _, option := range slices.Sorted(maps.Keys(names)) {
		if name := names[option]; !identifier.MatchString(name) {
			errs = append(errs, fmt.Errorf("sqlfence: %s %q is not a plain SQL name; use letters, digits and _ only", option, name))
		}
	}
	return errors.Join(errs...)
}
