// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/sqlfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// guardedTx is RunInTx of bun, behind the fence of a lock. The guard gets the *sql.Tx inside
// of the bun.Tx: bun.Tx itself reads ? for an argument, and not $1.
func guardedTx(ctx context.Context, db *bun.DB, guard *sqlfence.Table, lock string, f func(ctx context.Context, tx bun.Tx) error) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if err := guard.Raise(ctx, tx.Tx, lock); err != nil { // errors.Is(err, fence.ErrStale): too late
			return err
		}
		return f(ctx, tx)
	})
}

// bunRow is a row of the table of values.
type bunRow struct {
	bun.BaseModel `bun:"table:guarded"`
	ID            int64 `bun:",pk"`
	V             string
}

// byBun is a row behind a table of fences, with bun.
func (e *database) byBun(id int64, lock string) *fencetest.Value {
	db := bun.NewDB(e.db, pgdialect.New())
	write := func(ctx context.Context, tx bun.Tx, v string) error {
		_, err := tx.NewUpdate().Model(&bunRow{ID: id, V: v}).WherePK().Exec(ctx)
		return err
	}
	return &fencetest.Value{
		Enter: func(ctx context.Context) (string, error) {
			row := bunRow{ID: id}
			err := guardedTx(ctx, db, e.table, lock, func(ctx context.Context, tx bun.Tx) error {
				return tx.NewSelect().Model(&row).WherePK().Scan(ctx)
			})
			return row.V, err
		},
		Write: func(ctx context.Context, v string) error {
			return guardedTx(ctx, db, e.table, lock, func(ctx context.Context, tx bun.Tx) error { return write(ctx, tx, v) })
		},
		LoseReply: func(ctx context.Context, v string) error { // the reply to COMMIT
			return e.lossy(func(conn *sql.DB, d *fencetest.Dialer) error {
				return guardedTx(ctx, bun.NewDB(conn, pgdialect.New()), e.table, lock, func(ctx context.Context, tx bun.Tx) error {
					defer d.LoseNextReply(ctx)
					return write(ctx, tx, v)
				})
			})
		},
	}
}

func TestBunGuard(t *testing.T) {
	fencetest.Run(t, need(t, postgres).harness("bun, fence table", (*database).byBun))
}

// TestBunRecipe: the token comes with the context of the lease.
func TestBunRecipe(t *testing.T) {
	e := need(t, postgres)
	id, err := e.insert(t.Context())
	must.OK(t, err)
	db := bun.NewDB(e.db, pgdialect.New())
	locks, err := fencelock.New(memstore.New(nil), nil)
	must.OK(t, err)
	defer locks.Close(t.Context())
	const lock = "bun"
	set := func(ctx context.Context, _ *fencelock.Lease) error {
		return guardedTx(ctx, db, e.table, lock, func(ctx context.Context, tx bun.Tx) error {
			_, err := tx.NewUpdate().Model(&bunRow{ID: id, V: "x"}).WherePK().Exec(ctx)
			return err
		})
	}
	must.OK(t, locks.Do(t.Context(), lock, set))
	if err := set(holding(t, lock, 1, ""), nil); !errors.Is(err, fence.ErrStale) {
		t.Errorf("too late: got %v", err)
	}
	if err := set(t.Context(), nil); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("outside of the lock: got %v", err)
	}
}
