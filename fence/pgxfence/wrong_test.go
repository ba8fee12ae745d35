// SPDX-License-Identifier: Apache-2.0

package pgxfence_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
)

// wrongGuards are what people write with pgx. Each is a guard with one mistake.
var wrongGuards = []struct {
	name, caught string
	right        func(p *process, id int64, lock string) *fencetest.Value
	change       func(p *process, id int64, lock string, v *fencetest.Value)
}{
	{"no guard at all", "G2/delayed-writer", (*process).byRow, func(p *process, id int64, _ string, v *fencetest.Value) {
		v.Enter = func(ctx context.Context) (string, error) { return get(ctx, p.pool, id) }
		v.Write = func(ctx context.Context, value string) error { return set(ctx, p.pool, id, value) }
	}},
	{"the number of rows of a batch, looked at afterwards", "G2/delayed-writer", (*process).byBatch, func(p *process, id int64, lock string, v *fencetest.Value) {
		v.Write = func(ctx context.Context, value string) error {
			m, err := fence.FromContext(ctx, lock)
			if err != nil {
				return err
			}
			b := &pgx.Batch{}
			b.Queue("INSERT INTO fencelock_fences AS f (lock_name, token, holder) VALUES ($1, $2, $3) ON CONFLICT (lock_name)"+
				" DO UPDATE SET token = EXCLUDED.token, holder = EXCLUDED.holder WHERE f.token <= EXCLUDED.token", lock, int64(m.Token), m.Holder)
			b.Queue(setSQL, value, id)
			results := p.pool.SendBatch(ctx, b)
			defer results.Close()
			tag, err := results.Exec()
			if err == nil && tag.RowsAffected() == 0 {
				return &fence.StaleError{Given: m}
			}
			return err
		}
	}},
	{"the fence in one batch, the write in the next", "G4/write-in-steps", (*process).byBatch, func(p *process, id int64, lock string, v *fencetest.Value) {
		v.Write = func(ctx context.Context, value string) error {
			if err := p.table.SendBatch(ctx, p.pool, lock, &pgx.Batch{}).Close(); err != nil {
				return err
			}
			return set(ctx, p.pool, id, value)
		}
	}},
	{"the fence beside the transaction", "G4/write-in-steps", (*process).byTable, func(p *process, id int64, lock string, v *fencetest.Value) {
		v.Write = func(ctx context.Context, value string) error {
			return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
				if err := p.table.Raise(ctx, p.pool, lock); err != nil { // the pool, not tx
					return err
				}
				return set(ctx, tx, id, value)
			})
		}
	}},
	{"read before the fence", "G3/entry-in-steps", (*process).byTable, func(p *process, id int64, lock string, v *fencetest.Value) {
		v.Enter = func(ctx context.Context) (value string, err error) {
			err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
				value, err = get(ctx, tx, id)
				if err != nil {
					return err
				}
				return p.table.Raise(ctx, tx, lock)
			})
			return value, err
		}
	}},
	{"fence raised by writes only", "G3/raised-at-entry", (*process).byRow, func(p *process, id int64, _ string, v *fencetest.Value) {
		v.Enter = func(ctx context.Context) (string, error) { return get(ctx, p.pool, id) }
	}},
}

func TestWrongGuardsAreRefused(t *testing.T) {
	p := need(t)
	for _, w := range wrongGuards {
		t.Run(w.name, func(t *testing.T) {
			fencetest.Refuses(t, p.harness(w.name, func(p *process, id int64, lock string) *fencetest.Value {
				v := w.right(p, id, lock)
				w.change(p, id, lock, v)
				return v
			}), w.caught)
		})
	}
}
