// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fencelock/fencelock/fence"
)

// RowOptions define where the guarded rows and their fences are.
type RowOptions struct {
	// Table of the rows, with its schema if need be. Required.
	Table string
	// Key is the column that names a row. Required; it must be unique, see
	// Row.Check.
	Key string
	// Fence is the column that keeps the token: a 64-bit integer, 0 or NULL in
	// a row that no holder has entered. Default "fence". A smaller or a floating
	// point type may admit older tokens without an error, see Row.Check.
	Fence string
	// Holder is a column that keeps the holder's name, for people. Default:
	// none, and then a refusal does not name the newer holder.
	Holder string
}

// Row guards rows by a column that holds the newest token. The column does not hold
// the lock's name, so every process must name the same lock for a row. A Row is safe
// for concurrent use and need not be closed.
type Row struct {
	dialect Dialect
	o       RowOptions
}

// NewRow returns a guard. It does no I/O.
func NewRow(d Dialect, opts *RowOptions) (*Row, error) {
	if opts == nil {
		opts = &RowOptions{}
	}
	r := &Row{d, *opts}
	if r.o.Fence == "" {
		r.o.Fence = "fence"
	}
	names := map[string]string{"RowOptions.Table": r.o.Table, "RowOptions.Key": r.o.Key, "RowOptions.Fence": r.o.Fence}
	if r.o.Holder != "" {
		names["RowOptions.Holder"] = r.o.Holder
	}
	if err := errors.Join(d.check(), checkNames(names)); err != nil {
		return nil, err
	}
	return r, nil
}

// Raise raises the fence of a row to the token of lock that ctx carries. Do it
// before the row is read. In a transaction it also keeps the row locked.
//
// It returns an error that wraps fence.ErrStale if a newer token was there, and
// sql.ErrNoRows if there is no such row.
func (r *Row) Raise(ctx context.Context, db Querier, lock string, key any) error {
	return r.RaiseOn(ctx, standard{db}, lock, key)
}

// RaiseOn is Raise for another library than database/sql.
func (r *Row) RaiseOn(ctx context.Context, db Database, lock string, key any) error {
	return r.update(ctx, db, lock, key, "", nil)
}

// Update changes a row if the token of lock that ctx carries is not older than
// the newest that the row has seen, and raises its fence, in one statement. set
// is the list of assignments, with placeholders of the dialect from the first
// on, and args are their values:
//
//	row.Update(ctx, db, "orders/42", 42, "total = $1, state = $2", 110, "paid")
//
// It returns an error that wraps fence.ErrStale if it was refused, and
// sql.ErrNoRows if there is no such row. Outside of a transaction any other
// error leaves the outcome unknown.
func (r *Row) Update(ctx context.Context, db Querier, lock string, key any, set string, args ...any) error {
	return r.UpdateOn(ctx, standard{db}, lock, key, set, args...)
}

// UpdateOn is Update for another library than database/sql.
func (r *Row) UpdateOn(ctx context.Context, db Database, lock string, key any, set string, args ...any) error {
	if set == "" {
		return errors.New("sqlfence: Update without assignments; use Raise to raise the fence alone")
	}
	return r.update(ctx, db, lock, key, set+", ", args)
}

func (r *Row) update(ctx context.Context, db Database, lock string, key any, set string, args []any) error {
	m, err := fence.FromContext(ctx, lock)
	if err != nil {
		return err
	}
	query, args := r.statement(set, args, key, m)
	res, err := db.Exec(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("sqlfence: update %s: %w", r.o.Table, err)
	}
	ok, err := r.dialect.admitted(res, m)
	if err != nil {
		return fmt.Errorf("sqlfence: the driver does not report how many rows changed, so it is unknown whether the fence was raised: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		n = 0 // LAST_INSERT_ID is enough
	}
	if !ok && n == 0 { // MariaDB loses LAST_INSERT_ID if the table has a trigger; a row that was changed was let through
		return r.why(ctx, db, key, m)
	}
	if n > 1 {
		return fmt.Errorf("sqlfence: %d rows of %s have %s = %v and were changed; RowOptions.Key must be unique", n, r.o.Table, r.o.Key, key)
	}
	return nil
}

// statement returns the guarded update. The caller's assignments come first, so
// that their placeholders keep their numbers.
func (r *Row) statement(set string, args []any, key any, m fence.Mark) (string, []any) {
	full := append([]any(nil), args...)
	next := func(v any) string { full = append(full, v); return r.dialect.arg(len(full)) }
	f, token := r.o.Fence, int64(m.Token)
	q := "UPDATE " + r.o.Table + " SET " + set
	if r.dialect == PostgreSQL {
		t := next(token)
		q += f + " = " + t
		if r.o.Holder != "" {
			q += ", " + r.o.Holder + " = " + next(m.Holder)
		}
		return q + " WHERE " + r.o.Key + " = " + next(key) + " AND COALESCE(" + f + ", 0) <= " + t, full
	}
	// With a column in it, it is worked out for rows that are found and for no
	// other.
	q += f + " = LAST_INSERT_ID(GREATEST(COALESCE(" + f + ", 0), " + next(token) + "))"
	if r.o.Holder != "" {
		q += ", " + r.o.Holder + " = " + next(m.Holder)
	}
	return q + " WHERE " + r.o.Key + " = " + next(key) + " AND COALESCE(" + f + ", 0) <= " + next(token), full
}

// why distinguishes a missing row from a newer holder, after the statement found nothing
// to change. It decides one thing, for a table with a trigger in MySQL: no fence sinks, so a row with
// this token has refused nothing, and had all the values before. The read locks the row there: at
// REPEATABLE READ a plain one may show an older fence than the one that the statement met.
func (r *Row) why(ctx context.Context, db Database, key any, m fence.Mark) error {
	holder := "''"
	if r.o.Holder != "" {
		holder = "COALESCE(" + r.o.Holder + ", '')"
	}
	locking := ""
	if r.dialect == MySQL {
		locking = " FOR UPDATE"
	}
	kept := fence.Mark{Lock: m.Lock}
	err := db.QueryRow(ctx, "SELECT COALESCE("+r.o.Fence+", 0), "+holder+" FROM "+r.o.Table+
		" WHERE "+r.o.Key+" = "+r.dialect.arg(1)+locking, key).Scan(&kept.Token, &kept.Holder)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("sqlfence: %s has no row with %s = %v: %w", r.o.Table, r.o.Key, key, err)
	case err != nil:
		return fmt.Errorf("sqlfence: no row was updated; the reason is unknown: %w", err)
	case r.dialect == MySQL && kept.Token == m.Token:
		return nil
	}
	return refusal(kept, m)
}
