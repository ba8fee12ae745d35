// SPDX-License-Identifier: Apache-2.0

package tokencheck

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	"github.com/fencelock/fencelock"
)

var (
	locks    *fencelock.Client
	db       *sql.DB
	errStale = errors.New("stale")
)

type row struct{ fence int64 }

func load(ctx context.Context) (row, error)                { return row{}, nil }
func save(ctx context.Context, r row) error                { return nil }
func guarded(ctx context.Context, t fencelock.Token) error { return nil }

// Reported.

func compare(ctx context.Context) error {
	return locks.Do(ctx, "a", func(ctx context.Context, l *fencelock.Lease) error {
		r, err := load(ctx)
		if err != nil {
			return err
		}
		if int64(l.Token()) < r.fence { // want `the token is compared in Go, before the write`
			return errStale
		}
		return save(ctx, r)
	})
}

func variable(ctx context.Context) error {
	return locks.Do(ctx, "a", func(ctx context.Context, l *fencelock.Lease) error {
		r, _ := load(ctx)
		token := l.Token()
		slog.Info("begin", "token", token)
		if r.fence > int64(token) { // want `the token is compared in Go, before the write`
			return errStale
		}
		return save(ctx, r)
	})
}

func printed(ctx context.Context) error {
	return locks.Do(ctx, "a", func(ctx context.Context, l *fencelock.Lease) error {
		fmt.Println("holding", l.Token()) // want `the token is printed, and db.ExecContext writes without it`
		_, err := db.ExecContext(ctx, "UPDATE orders SET total = 1 WHERE id = 42")
		return err
	})
}

// Not reported.

func given(ctx context.Context) error {
	return locks.Do(ctx, "a", func(ctx context.Context, l *fencelock.Lease) error {
		slog.Info("begin", "token", l.Token())
		return guarded(ctx, l.Token())
	})
}

func early(ctx context.Context) error {
	return locks.Do(ctx, "a", func(ctx context.Context, l *fencelock.Lease) error {
		r, _ := load(ctx)
		if int64(l.Token()) < r.fence { // spares the write, which is guarded
			return errStale
		}
		return guarded(ctx, l.Token())
	})
}

func statement(ctx context.Context) error {
	return locks.Do(ctx, "a", func(ctx context.Context, l *fencelock.Lease) error {
		fmt.Println("holding", l.Token())
		_, err := db.ExecContext(ctx, "UPDATE orders SET total = 1, fence = $1 WHERE id = 42 AND fence <= $1", int64(l.Token()))
		return err
	})
}

func inAGuard(ctx context.Context, guard func(context.Context, func(*sql.Tx) error) error) error {
	return locks.Do(ctx, "a", func(ctx context.Context, l *fencelock.Lease) error {
		return guard(ctx, func(tx *sql.Tx) error {
			fmt.Println("holding", l.Token())
			_, err := tx.ExecContext(ctx, "UPDATE orders SET total = 1 WHERE id = 42")
			return err
		})
	})
}

func onlyPrinted(ctx context.Context) error {
	return locks.Do(ctx, "a", func(ctx context.Context, l *fencelock.Lease) error {
		fmt.Println("holding", l.Token())
		return nil
	})
}

func identity(a, b *fencelock.Lease) bool { return a.Token() == b.Token() }

func order(a, b *fencelock.Lease) bool { return a.Token() < b.Token() }

func noTokens(l *fencelock.Lease) bool { return l.Token() > 0 }

func shown(a *fencelock.Lease, last fencelock.Token) { fmt.Println("grows:", a.Token() > last) }

// fence is a guard in memory: it gets its token from a caller.
type fence struct{ newest fencelock.Token }

func (f *fence) check(t fencelock.Token) error {
	if t < f.newest {
		return errStale
	}
	f.newest = t
	return nil
}
