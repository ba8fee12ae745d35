// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/internal/must"
)

// harness makes values, each in a fresh row. Another process has its own database
// handle and guards.
func (e *database) harness(name string, value func(e *database, id int64, lock string) *fencetest.Value) *fencetest.Harness {
	open := func(e *database, id int64, lock string) *fencetest.Value {
		v := value(e, id, lock)
		v.Read = func(ctx context.Context) (string, error) { return e.get(ctx, e.db, id) }
		return v
	}
	return &fencetest.Harness{Name: name + " on " + e.name,
		New: func(ctx context.Context, lock string) (*fencetest.Value, error) {
			id, err := e.insert(ctx)
			if err != nil {
				return nil, err
			}
			v := open(e, id, lock)
			v.Reopen = func(context.Context) (*fencetest.Value, error) { return open(e.other, id, lock), nil }
			return v, nil
		},
		Restart: e.restart,
	}
}

// byTable is a row behind a table of fences.
func (e *database) byTable(id int64, lock string) *fencetest.Value {
	return &fencetest.Value{
		Enter: func(ctx context.Context) (v string, err error) {
			err = e.table.Do(ctx, e.db, lock, func(ctx context.Context, tx *sql.Tx) error {
				v, err = e.get(ctx, tx, id)
				return err
			})
			return v, err
		},
		Write: func(ctx context.Context, v string) error {
			return e.table.Do(ctx, e.db, lock, func(ctx context.Context, tx *sql.Tx) error { return e.set(ctx, tx, id, v) })
		},
		LoseReply: func(ctx context.Context, v string) error { // the reply to COMMIT
			return e.lossy(func(db *sql.DB, d *fencetest.Dialer) error {
				return e.table.Do(ctx, db, lock, func(ctx context.Context, tx *sql.Tx) error {
					defer d.LoseNextReply(ctx)
					return e.set(ctx, tx, id, v)
				})
			})
		},
	}
}

// byRow is a value in a row with its own fence.
func (e *database) byRow(id int64, lock string) *fencetest.Value {
	return &fencetest.Value{
		Enter: func(ctx context.Context) (string, error) {
			if err := e.row.Raise(ctx, e.db, lock, id); err != nil {
				return "", err
			}
			return e.get(ctx, e.db, id)
		},
		Write: func(ctx context.Context, v string) error {
			return e.row.Update(ctx, e.db, lock, id, e.sql("v = $1"), v)
		},
		LoseReply: func(ctx context.Context, v string) error {
			return e.lossy(func(db *sql.DB, d *fencetest.Dialer) error {
				conn, err := db.Conn(ctx) // drivers check a connection when it is taken
				if err != nil {
					return err
				}
				defer conn.Close()
				d.LoseNextReply(ctx)
				return e.row.Update(ctx, conn, lock, id, e.sql("v = $1"), v)
			})
		},
	}
}

func TestTableGuard(t *testing.T) {
	each(t, func(t *testing.T, e *database) { fencetest.Run(t, e.harness("fence table", (*database).byTable)) })
}

func TestRowGuard(t *testing.T) {
	each(t, func(t *testing.T, e *database) { fencetest.Run(t, e.harness("fence column", (*database).byRow)) })
}

// inTx does the work in a new transaction.
func (e *database) inTx(ctx context.Context, work func(ctx context.Context, tx *sql.Tx) error) error {
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := work(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// TestAddedStatements compares one transaction that reads and writes with the
// same under each guard.
func TestAddedStatements(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		id, err := e.insert(t.Context())
		must.OK(t, err)
		const lock = "added"
		count := func(f func(ctx context.Context) error) int {
			t.Helper()
			n, err := fencetest.Trips(fence.With(t.Context(), fence.Mark{Lock: lock, Token: 512}), f)
			must.OK(t, err)
			return n
		}
		bare := func(ctx context.Context, tx *sql.Tx) error {
			v, err := e.get(ctx, tx, id)
			return errors.Join(err, e.set(ctx, tx, id, v+"x"))
		}
		byRow := func(ctx context.Context, tx *sql.Tx) error {
			err := e.row.Raise(ctx, tx, lock, id)
			v, err2 := e.get(ctx, tx, id)
			return errors.Join(err, err2, e.row.Update(ctx, tx, lock, id, e.sql("v = $1"), v+"x"))
		}
		without := count(func(ctx context.Context) error { return e.inTx(ctx, bare) })
		if without != 4 {
			t.Errorf("a bare transaction has %d round trips, want begin, read, write, commit", without)
		}
		for guard, n := range map[string]int{
			"fence table":  count(func(ctx context.Context) error { return e.table.Do(ctx, e.db, lock, bare) }),
			"fence column": count(func(ctx context.Context) error { return e.inTx(ctx, byRow) }),
		} {
			t.Logf("fencetest: %s on %s adds %d round trips", guard, e.name, n-without)
			if n-without > 1 {
				t.Errorf("%s: %d round trips more than without, want one at most", guard, n-without)
			}
		}
	})
}
