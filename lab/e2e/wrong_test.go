// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"database/sql"
	"testing"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
)

// wrongGuards are what people write. Each is the fence column with one mistake.
var wrongGuards = []struct {
	name, caught string
	change       func(e *database, id int64, lock string, v *fencetest.Value)
}{
	{"no guard at all", "G2/delayed-writer", func(e *database, id int64, lock string, v *fencetest.Value) {
		v.Enter = func(ctx context.Context) (string, error) { return e.get(ctx, e.db, id) }
		v.Write = func(ctx context.Context, value string) error { return e.set(ctx, e.db, id, value) }
	}},
	{"check, then write", "G4/write-in-steps", func(e *database, id int64, lock string, v *fencetest.Value) {
		v.Write = func(ctx context.Context, value string) error {
			given, err := fence.FromContext(ctx, lock)
			if err != nil {
				return err
			}
			kept := fence.Mark{Lock: lock}
			if err := e.db.QueryRowContext(ctx, e.sql("SELECT fence FROM guarded WHERE id = $1"), id).Scan(&kept.Token); err != nil {
				return err
			}
			if err := fence.Check(kept, given); err != nil {
				return err
			}
			_, err = e.db.ExecContext(ctx, e.sql("UPDATE guarded SET v = $1, fence = $2 WHERE id = $3"), value, int64(given.Token), id)
			return err
		}
	}},
	{"check, then write, in one transaction", "G4/write-in-steps", checkInTx},
	{"read before the fence", "G3/entry-in-steps", func(e *database, id int64, lock string, v *fencetest.Value) {
		v.Enter = func(ctx context.Context) (string, error) {
			value, err := e.get(ctx, e.db, id)
			if err != nil {
				return "", err
			}
			return value, e.row.Raise(ctx, e.db, lock, id)
		}
	}},
	{"fence raised by writes only", "G3/raised-at-entry", func(e *database, id int64, lock string, v *fencetest.Value) {
		v.Enter = func(ctx context.Context) (string, error) { return e.get(ctx, e.db, id) }
	}},
	{"> for >=", "G1/retry", func(e *database, id int64, lock string, v *fencetest.Value) {
		v.Write = update(e, id, lock, "UPDATE guarded SET v = $1, fence = $2 WHERE id = $3 AND COALESCE(fence, 0) < $4")
	}},
	{"no row changed is success", "G2/delayed-writer", func(e *database, id int64, lock string, v *fencetest.Value) {
		guarded := v.Write
		v.Write = func(ctx context.Context, value string) error {
			if _, err := fence.FromContext(ctx, lock); err != nil {
				return err
			}
			_ = guarded(ctx, value)
			return nil
		}
	}},
	{"entry lowers the fence", "G2/late-entry", func(e *database, id int64, lock string, v *fencetest.Value) {
		v.Enter = func(ctx context.Context) (string, error) {
			given, err := fence.FromContext(ctx, lock)
			if err != nil {
				return "", err
			}
			if _, err := e.db.ExecContext(ctx, e.sql("UPDATE guarded SET fence = $1 WHERE id = $2"), int64(given.Token), id); err != nil {
				return "", err
			}
			return e.get(ctx, e.db, id)
		}
	}},
}

// update is a guarded update with its own condition.
func update(e *database, id int64, lock, text string) func(context.Context, string) error {
	return func(ctx context.Context, value string) error {
		given, err := fence.FromContext(ctx, lock)
		if err != nil {
			return err
		}
		res, err := e.db.ExecContext(ctx, e.sql(text), value, int64(given.Token), id, int64(given.Token))
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return &fence.StaleError{Given: given}
		}
		return nil
	}
}

// checkInTx believes that a transaction makes two statements one step. At READ
// COMMITTED, and with a plain SELECT, it does not.
func checkInTx(e *database, id int64, lock string, v *fencetest.Value) {
	v.Write = func(ctx context.Context, value string) error {
		given, err := fence.FromContext(ctx, lock)
		if err != nil {
			return err
		}
		tx, err := e.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		kept := fence.Mark{Lock: lock}
		if err := tx.QueryRowContext(ctx, e.sql("SELECT fence FROM guarded WHERE id = $1"), id).Scan(&kept.Token); err != nil {
			return err
		}
		if err := fence.Check(kept, given); err != nil {
			return err
		}
		if err := e.set(ctx, tx, id, value); err != nil {
			return err
		}
		return tx.Commit()
	}
}

func TestWrongGuardsAreRefused(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		for _, w := range wrongGuards {
			t.Run(w.name, func(t *testing.T) {
				h := e.harness(w.name, func(e *database, id int64, lock string) *fencetest.Value {
					v := e.byRow(id, lock)
					w.change(e, id, lock, v)
					return v
				})
				fencetest.Refuses(t, h, w.caught)
			})
		}
	})
}

// TestReadingBeforeRaiseIsRefused: the table guard, with its statement in the
// wrong place of the transaction.
func TestReadingBeforeRaiseIsRefused(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		h := e.harness("fence table, raised after reading", func(e *database, id int64, lock string) *fencetest.Value {
			v := e.byTable(id, lock)
			v.Enter = func(ctx context.Context) (string, error) {
				tx, err := e.db.BeginTx(ctx, nil)
				if err != nil {
					return "", err
				}
				defer tx.Rollback()
				value, err := e.get(ctx, tx, id)
				if err != nil {
					return "", err
				}
				if err := e.table.Raise(ctx, tx, lock); err != nil {
					return "", err
				}
				return value, tx.Commit()
			}
			return v
		})
		fencetest.Refuses(t, h, "G3/entry-in-steps")
	})
}
