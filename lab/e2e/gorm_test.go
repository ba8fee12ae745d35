// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/gormfence"
	"github.com/fencelock/fencelock/fence/pgxfence"
	"github.com/fencelock/fencelock/fence/sqlfence"
	"github.com/fencelock/fencelock/internal/must"
)

// gormRow is a row of the table of values. Here its lock is not found from its key: the cases
// choose the names.
type gormRow struct {
	ID    int64
	V     string
	Fence gormfence.Token
	Lock  string `gorm:"-"`
}

func (gormRow) TableName() string { return "guarded" }

func (r gormRow) FenceLock() string { return r.Lock }

// gormOn opens GORM on a database handle, with the plugin for a model.
func (e *database) gormOn(db *sql.DB, cfg gorm.Config, models ...gormfence.Fenced) (*gorm.DB, error) {
	cfg.Logger = logger.Discard
	var d gorm.Dialector = gormpostgres.New(gormpostgres.Config{Conn: db})
	if e.dialect == sqlfence.MySQL {
		d = gormmysql.New(gormmysql.Config{Conn: db})
	}
	g, err := gorm.Open(d, &cfg)
	if err != nil {
		return nil, err
	}
	return g, g.Use(gormfence.New(models...))
}

// gormOpener makes a database handle of GORM for the rows.
func gormOpener(cfg gorm.Config) func(e *database, db *sql.DB) (*gorm.DB, error) {
	return func(e *database, db *sql.DB) (*gorm.DB, error) { return e.gormOn(db, cfg, &gormRow{}) }
}

// gormHarness makes values behind a guard of GORM. write changes the value with a handle that has
// the context.
func (e *database) gormHarness(name string, open func(e *database, db *sql.DB) (*gorm.DB, error),
	enter func(db *gorm.DB, row *gormRow) error, write func(db *gorm.DB, row *gormRow, v string) error) *fencetest.Harness {
	return e.harness(name, func(e *database, id int64, lock string) *fencetest.Value {
		on := func(ctx context.Context, f func(db *gorm.DB) error) error {
			db, err := open(e, e.db)
			if err != nil {
				return err
			}
			return f(db.WithContext(ctx))
		}
		return &fencetest.Value{
			Enter: func(ctx context.Context) (string, error) {
				row := gormRow{ID: id, Lock: lock}
				err := on(ctx, func(db *gorm.DB) error { return enter(db, &row) })
				return row.V, err
			},
			Write: func(ctx context.Context, v string) error {
				return on(ctx, func(db *gorm.DB) error { return write(db, &gormRow{ID: id, Lock: lock}, v) })
			},
			LoseReply: func(ctx context.Context, v string) error {
				return e.lossy(func(conn *sql.DB, d *fencetest.Dialer) error {
					conn.SetMaxOpenConns(1)
					db, err := open(e, conn)
					if err != nil {
						return err
					}
					db = db.WithContext(ctx)
					return db.Transaction(func(tx *gorm.DB) error { // the reply to COMMIT
						defer d.LoseNextReply(ctx)
						return write(tx, &gormRow{ID: id, Lock: lock}, v)
					})
				})
			},
		}
	})
}

func gormWrite(db *gorm.DB, row *gormRow, v string) error {
	return db.Model(row).Update("v", v).Error
}

func gormEnter(db *gorm.DB, row *gormRow) error { return gormfence.Enter(db, row) }

func TestGormFieldGuard(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		fencetest.Run(t, e.gormHarness("GORM field", gormOpener(gorm.Config{}), gormEnter, gormWrite))
	})
}

// TestGormFieldGuardWithoutTransactions: one statement is enough for the check and the write.
func TestGormFieldGuardWithoutTransactions(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		fencetest.Run(t, e.gormHarness("GORM field, SkipDefaultTransaction", gormOpener(gorm.Config{SkipDefaultTransaction: true}), gormEnter, gormWrite))
	})
}

func TestGormTableGuard(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		fencetest.Run(t, e.gormHarness("GORM table", gormOpener(gorm.Config{}),
			func(db *gorm.DB, row *gormRow) error {
				table, err := gormfence.NewTable(db, nil)
				if err != nil {
					return err
				}
				return table.Do(db, row.Lock, func(tx *gorm.DB) error { return tx.First(row).Error })
			},
			func(db *gorm.DB, row *gormRow, v string) error {
				table, err := gormfence.NewTable(db, nil)
				if err != nil {
					return err
				}
				set := func(tx *gorm.DB) error { return tx.Exec("UPDATE guarded SET v = ? WHERE id = ?", v, row.ID).Error }
				if _, begun := db.Statement.ConnPool.(gorm.TxCommitter); begun {
					if err := table.Raise(db, row.Lock); err != nil {
						return err
					}
					return set(db)
				}
				return table.Do(db, row.Lock, set)
			}))
	})
}

// wrongGorm are what people write with GORM.
var wrongGorm = []struct {
	name, caught string
	enter        func(db *gorm.DB, row *gormRow) error
	write        func(db *gorm.DB, row *gormRow, v string) error
}{
	{"read before the fence", "G3/entry-in-steps", func(db *gorm.DB, row *gormRow) error {
		if err := db.First(row).Error; err != nil {
			return err
		}
		return db.Model(row).UpdateColumn("fence", 0).Error
	}, gormWrite},
	{"fence raised by writes only", "G3/raised-at-entry", func(db *gorm.DB, row *gormRow) error { return db.First(row).Error }, gormWrite},
	{"SQL as text past the field", "G2/delayed-writer", gormEnter, func(db *gorm.DB, row *gormRow, v string) error {
		if _, err := fence.FromContext(db.Statement.Context, row.Lock); err != nil {
			return err
		}
		return db.Exec("UPDATE guarded SET v = ? WHERE id = ?", v, row.ID).Error
	}},
	{"an optimistic lock for a fence", "G2/delayed-writer", gormEnter, func(db *gorm.DB, row *gormRow, v string) error {
		// The version of what is there now, and not of what the holder has read.
		var version *int64
		if err := db.Raw("SELECT fence FROM guarded WHERE id = ?", row.ID).Scan(&version).Error; err != nil {
			return err
		}
		return db.Exec("UPDATE guarded SET v = ? WHERE id = ? AND COALESCE(fence, 0) = COALESCE(?, 0)", v, row.ID, version).Error
	}},
	{"RowsAffected 0 is success", "G2/delayed-writer", gormEnter, func(db *gorm.DB, row *gormRow, v string) error {
		m, err := fence.FromContext(db.Statement.Context, row.Lock)
		if err != nil {
			return err
		}
		return db.Exec("UPDATE guarded SET v = ?, fence = ? WHERE id = ? AND COALESCE(fence, 0) <= ?", v, int64(m.Token), row.ID, int64(m.Token)).Error
	}},
}

func TestWrongGormGuardsAreRefused(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		for _, w := range wrongGorm {
			t.Run(w.name, func(t *testing.T) {
				fencetest.Refuses(t, e.gormHarness(w.name+" with GORM", gormOpener(gorm.Config{}), w.enter, w.write), w.caught)
			})
		}
	})
}

// TestGormAddedStatements compares a read and an update with the same under the guard.
func TestGormAddedStatements(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		id, err := e.insert(t.Context())
		must.OK(t, err)
		const lock = "added with GORM"
		db, err := e.gormOn(e.db, gorm.Config{}, &gormRow{})
		must.OK(t, err)
		count := func(f func(ctx context.Context) error) int {
			t.Helper()
			n, err := fencetest.Trips(fence.With(t.Context(), fence.Mark{Lock: lock, Token: 512}), f)
			must.OK(t, err)
			return n
		}
		row := gormRow{ID: id, Lock: lock}
		read := count(func(ctx context.Context) error {
			return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return tx.First(&gormRow{ID: id}).Error })
		})
		entered := count(func(ctx context.Context) error { return gormfence.Enter(db.WithContext(ctx), &row) })
		updated := count(func(ctx context.Context) error { return gormWrite(db.WithContext(ctx), &row, "x") })
		t.Logf("fencetest: GORM field on %s adds %d round trips", e.name, entered-read+updated-3)
		if entered-read != 1 || updated != 3 {
			t.Errorf("read %d, entered %d, updated %d round trips, want one more, and begin, update, commit", read, entered, updated)
		}
	})
}

// TestLibrariesShareOneFence: writers with database/sql, GORM and pgx, by the table and by the column.
func TestLibrariesShareOneFence(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		id, err := e.insert(t.Context())
		must.OK(t, err)
		const lock = "shared by libraries"
		db, err := e.gormOn(e.db, gorm.Config{}, &gormRow{})
		must.OK(t, err)
		table, err := gormfence.NewTable(db, nil)
		must.OK(t, err)
		older, newer := holding(t, lock, 512, ""), holding(t, lock, 768, "")
		must.OK(t, errors.Join(e.table.Raise(newer, e.db, lock), e.row.Raise(newer, e.db, lock, id)))
		tried := map[string]error{
			"GORM table": table.Raise(db.WithContext(older), lock),
			"GORM field": gormfence.Enter(db.WithContext(older), &gormRow{ID: id, Lock: lock}),
		}
		if e.dialect == sqlfence.PostgreSQL {
			conn, err := pgx.Connect(t.Context(), "postgres://postgres@"+e.server.Addr+"/postgres?sslmode=disable")
			must.OK(t, err)
			defer conn.Close(context.Background())
			pgxTable, err := pgxfence.NewTable(nil)
			must.OK(t, err)
			pgxRow, err := pgxfence.NewRow(&pgxfence.RowOptions{Table: "guarded", Key: "id"})
			must.OK(t, err)
			tried["pgx table"], tried["pgx row"] = pgxTable.Raise(older, conn, lock), pgxRow.Raise(older, conn, lock, id)
		}
		for what, err := range tried {
			if !errors.Is(err, fence.ErrStale) {
				t.Errorf("%s: got %v", what, err)
			}
		}
	})
}
