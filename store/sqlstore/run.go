// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxAgain bounds how often a statement is repeated that the server refused because of
// a conflict. Nearly all statements lock one row, and those that lock many (vacate, confirm)
// lock rows of one session, so conflicts are rare; the bound is for databases where other
// programs lock our tables.
const maxAgain = 50

// run does one statement until the server does not refuse it because of others. Each
// commits by itself, so a refused one has done nothing.
func (s *Store) run(ctx context.Context, op string, do func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlstore: %s: %w", op, err)
	}
	for tries := 0; ; tries++ {
		err := do()
		if err == nil || errors.Is(err, sql.ErrNoRows) {
			return err
		}
		c := code(err)
		switch {
		case tries == maxAgain || ctx.Err() != nil:
			return s.classify(ctx, op, err)
		case among(strangers, c) && !s.pooled.Swap(true):
			continue // it was never executed: without prepared statements it will be
		case among(strangers, c) || among(again, c):
		default:
			return s.classify(ctx, op, err)
		}
		if !pause(ctx, time.Duration(rand.Int64N(int64(time.Millisecond)<<min(tries, 5)))) {
			return s.classify(ctx, op, err)
		}
	}
}

// pause waits, and reports whether ctx let it.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// args adds to the arguments how pgx shall send them: through a pooler the next
// statement may be on another connection, which does not know what was prepared.
func (s *Store) args(args []any) []any {
	if s.pgx && s.pooled.Load() {
		return append([]any{pgx.QueryExecModeExec}, args...)
	}
	return args
}

// prepared returns a statement for MySQL, whose driver would prepare it each time.
// pgx does that by itself, and others of PostgreSQL send it in one go.
func (s *Store) prepared(ctx context.Context, name string) (*sql.Stmt, error) {
	if s.dialect != MySQL {
		return nil, nil
	}
	s.mu.Lock()
	st := s.statements[name]
	s.mu.Unlock()
	if st != nil {
		return st, nil
	}
	st, err := s.db.PrepareContext(ctx, s.texts[name])
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.statements[name]; other != nil {
		_ = st.Close()
		return other, nil
	}
	s.statements[name] = st
	return st, nil
}

// exec does a statement that changes rows.
func (s *Store) exec(ctx context.Context, name string, args ...any) (res sql.Result, err error) {
	err = s.run(ctx, name, func() error {
		st, err := s.prepared(ctx, name)
		if err != nil {
			return err
		}
		if st != nil {
			res, err = st.ExecContext(ctx, args...)
		} else {
			res, err = s.db.ExecContext(ctx, s.texts[name], s.args(args)...)
		}
		return err
	})
	return res, err
}

// changed runs a statement and returns how many rows it changed.
func (s *Store) changed(ctx context.Context, name string, args ...any) (int64, error) {
	res, err := s.exec(ctx, name, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// number runs a statement of MySQL and returns the number that comes back with the answer.
func (s *Store) number(ctx context.Context, name string, args ...any) (int64, error) {
	res, err := s.exec(ctx, name, args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// unlessNone returns the error of row unless it is that of no row.
func unlessNone(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// row reads one row. It returns sql.ErrNoRows without a row.
func (s *Store) row(ctx context.Context, name string, args, to []any) error {
	err := s.rowOf(ctx, name, args, to)
	if _, quiet := s.texts[name+quietly]; quiet && code(err) == queueFull {
		err = s.rowOf(ctx, name+quietly, args, to)
	}
	return err
}

func (s *Store) rowOf(ctx context.Context, name string, args, to []any) error {
	return s.run(ctx, name, func() error {
		st, err := s.prepared(ctx, name)
		if err != nil {
			return err
		}
		if st != nil {
			return st.QueryRowContext(ctx, args...).Scan(to...)
		}
		return s.db.QueryRowContext(ctx, s.texts[name], s.args(args)...).Scan(to...)
	})
}

// rows reads all rows of a query, whose text may differ from call to call.
func (s *Store) rows(ctx context.Context, op, text string, args []any, reset func(), each func(*sql.Rows) error) error {
	return s.run(ctx, op, func() error {
		reset()
		rows, err := s.db.QueryContext(ctx, text, s.args(args)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := each(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}
