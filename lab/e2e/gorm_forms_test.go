// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/gormfence"
	"github.com/fencelock/fencelock/fence/sqlfence"
	"github.com/fencelock/fencelock/internal/must"
)

// softRow is a row that stays when it is deleted.
type softRow struct {
	ID        int64
	V         string
	Fence     gormfence.Token
	DeletedAt gorm.DeletedAt
	Lock      string `gorm:"-"`
}

func (softRow) TableName() string { return "guarded_softly" }

func (r *softRow) FenceLock() string { return r.Lock }

// plainRow is the same table through a model without a fence.
type plainRow struct {
	ID int64
	V  string
}

func (plainRow) TableName() string { return "guarded" }

// quotedRow and backquotedRow are the same table with quotes in its name, which GORM leaves as they are.
type quotedRow plainRow

func (quotedRow) TableName() string { return `"guarded"` }

type backquotedRow plainRow

func (backquotedRow) TableName() string { return "`guarded`" }

// aloneRow is of a table without fences.
type aloneRow struct {
	ID int64
	V  string
}

// forms opens GORM, and makes rows that have seen the token 512.
type forms struct {
	*gorm.DB
	t *testing.T
	e *database
}

const formsLock = "forms"

func newForms(t *testing.T, e *database) *forms {
	t.Helper()
	db, err := e.gormOn(e.db, gorm.Config{}, &gormRow{}, &softRow{})
	must.OK(t, err)
	kind := map[string]string{"postgres": "timestamp"}[e.name]
	if kind == "" {
		kind = "datetime(6)"
	}
	_, err = e.db.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS guarded_softly (id BIGINT PRIMARY KEY, v VARCHAR(100) NOT NULL, fence BIGINT, deleted_at "+kind+" NULL)")
	must.OK(t, err)
	return &forms{db, t, e}
}

func (f *forms) with(token int64) *gorm.DB {
	return f.WithContext(holding(f.t, formsLock, token, ""))
}

// row makes a row with a fence.
func (f *forms) row() *gormRow {
	f.t.Helper()
	id, err := f.e.insert(f.t.Context())
	must.OK(f.t, err)
	row := &gormRow{ID: id, Lock: formsLock}
	must.OK(f.t, gormfence.Enter(f.with(512), row))
	return row
}

// is compares what a row has become.
func (f *forms) is(what string, id int64, v string, token int64) {
	f.t.Helper()
	var got gormRow
	if err := f.e.db.QueryRowContext(f.t.Context(), f.e.sql("SELECT v, fence FROM guarded WHERE id = $1"), id).Scan(&got.V, &got.Fence); err != nil || got.V != v || int64(got.Fence) != token {
		f.t.Errorf("%s: the row is %q with fence %d, %v; want %q with fence %d", what, got.V, got.Fence, err, v, token)
	}
}

// guardedForms are the ways to update one row.
var guardedForms = map[string]func(db *gorm.DB, row *gormRow) error{
	"Update":              func(db *gorm.DB, row *gormRow) error { return db.Model(row).Update("v", "x").Error },
	"Updates of a map":    func(db *gorm.DB, row *gormRow) error { return db.Model(row).Updates(map[string]any{"V": "x"}).Error },
	"Updates of a struct": func(db *gorm.DB, row *gormRow) error { return db.Model(row).Updates(gormRow{V: "x"}).Error },
	"Updates of itself":   func(db *gorm.DB, row *gormRow) error { row.V = "x"; return db.Updates(row).Error },
	"UpdateColumn":        func(db *gorm.DB, row *gormRow) error { return db.Model(row).UpdateColumn("v", "x").Error },
	"UpdateColumns":       func(db *gorm.DB, row *gormRow) error { return db.Model(row).UpdateColumns(gormRow{V: "x"}).Error },
	"Save":                func(db *gorm.DB, row *gormRow) error { row.V = "x"; return db.Save(row).Error },
	"Select":              func(db *gorm.DB, row *gormRow) error { row.V = "x"; return db.Select("V").Updates(row).Error },
	"Omit of the fence":   func(db *gorm.DB, row *gormRow) error { row.V = "x"; return db.Omit("Fence").Save(row).Error },
	"Unscoped":            func(db *gorm.DB, row *gormRow) error { return db.Unscoped().Model(row).Update("v", "x").Error },
	"a model by value":    func(db *gorm.DB, row *gormRow) error { return db.Model(*row).Update("v", "x").Error },
	"an own fence": func(db *gorm.DB, row *gormRow) error {
		return db.Model(row).Updates(map[string]any{"v": "x", "fence": 1 << 40}).Error
	},
	"an own fence with its table": func(db *gorm.DB, row *gormRow) error {
		own := map[string]string{"mysql": "guarded.fence"}[db.Name()]
		if own == "" { // others take no table there
			own = "fence"
		}
		return db.Model(row).Updates(map[string]any{"v": "x", own: 1}).Error
	},
	"an own SET": func(db *gorm.DB, row *gormRow) error {
		return db.Model(row).Clauses(clause.Set{{Column: clause.Column{Name: "v"}, Value: "x"}}).Updates(map[string]any{}).Error
	},
	"conditions": func(db *gorm.DB, row *gormRow) error {
		return db.Model(row).Where("v <> ?", "y").Update("v", "x").Error
	},
	"conditions with OR": func(db *gorm.DB, row *gormRow) error {
		return db.Model(row).Where("v = ?", "").Or("v = ?", "z").Update("v", "x").Error
	},
	"OR between the lines": func(db *gorm.DB, row *gormRow) error {
		return db.Model(row).Where("v = 'z'\nOR\n1 = 1").Update("v", "x").Error
	},
	"no transaction": func(db *gorm.DB, row *gormRow) error {
		return db.Session(&gorm.Session{SkipDefaultTransaction: true}).Model(row).Update("v", "x").Error
	},
	"a transaction": func(db *gorm.DB, row *gormRow) error {
		return db.Transaction(func(tx *gorm.DB) error { return tx.Model(row).Update("v", "x").Error })
	},
	"another table name": func(db *gorm.DB, row *gormRow) error { return db.Table("guarded").Model(row).Update("v", "x").Error },
	"Assign":             func(db *gorm.DB, row *gormRow) error { return db.Assign(gormRow{V: "x"}).FirstOrCreate(row).Error },
	"Save by value":      func(db *gorm.DB, row *gormRow) error { r := *row; r.V = "x"; return db.Save(r).Error },
	"the same key": func(db *gorm.DB, row *gormRow) error {
		return db.Model(row).Updates(map[string]any{"id": int(row.ID), "v": "x"}).Error
	},
	"a pointer to a pointer": func(db *gorm.DB, row *gormRow) error { return db.Model(&row).Update("v", "x").Error },
	"RETURNING": func(db *gorm.DB, row *gormRow) error {
		if db.Name() == "mysql" { // MariaDB has it for deletes only
			return db.Model(row).Update("v", "x").Error
		}
		return db.Model(row).Clauses(clause.Returning{}).Update("v", "x").Error
	},
	"SkipHooks": func(db *gorm.DB, row *gormRow) error {
		return db.Session(&gorm.Session{SkipHooks: true}).Model(row).Update("v", "x").Error
	},
	"TranslateError": func(db *gorm.DB, row *gormRow) error {
		db = db.Session(&gorm.Session{})
		c := *db.Config
		c.TranslateError = true
		db.Config = &c
		return db.Model(row).Update("v", "x").Error
	},
	"a scope": func(db *gorm.DB, row *gormRow) error {
		return db.Scopes(func(d *gorm.DB) *gorm.DB { return d.Table("guarded") }).Model(row).Update("v", "x").Error
	},
	"a nested transaction": func(db *gorm.DB, row *gormRow) error {
		return db.Transaction(func(tx *gorm.DB) error {
			return tx.Transaction(func(tx *gorm.DB) error { return tx.Model(row).Update("v", "x").Error })
		})
	},
	"a statement used again": func(db *gorm.DB, row *gormRow) error {
		tx := db.Model(row)
		if err := tx.Update("v", "x").Error; err != nil {
			return err
		}
		return tx.Update("v", "x").Error
	},
	"an alias of its own": func(db *gorm.DB, row *gormRow) error {
		return db.Table("guarded AS g").Model(row).Update("v", "x").Error
	},
}

// TestGormFormsAreGuarded: each is rejected with an older token, changes the row and raises the fence with a newer
// token, again with the same token, and leaves other rows alone.
func TestGormFormsAreGuarded(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := newForms(t, e)
		for name, form := range guardedForms {
			row, neighbor := f.row(), f.row()
			before := *row
			if err := form(f.with(511), row); !errors.Is(err, fence.ErrStale) {
				t.Errorf("%s with an older token: got %v", name, err)
			}
			f.is(name+" with an older token", row.ID, "", 512)
			*row = before
			if err := form(f.DB, row); !errors.Is(err, fence.ErrNoToken) {
				t.Errorf("%s without a token: got %v", name, err)
			}
			f.is(name+" without a token", row.ID, "", 512)
			*row = before
			if err := form(f.with(768), row); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			f.is(name, row.ID, "x", 768)
			if err := form(f.with(768), row); err != nil { // changes nothing, which MySQL counts as no row
				t.Errorf("%s, a second time: %v", name, err)
			}
			f.is(name+" and its neighbor", neighbor.ID, "", 512)
		}
	})
}

// unguardedForms are those that the guard cannot see through.
var unguardedForms = map[string]func(db *gorm.DB, row *gormRow) error{
	"no key, Update": func(db *gorm.DB, row *gormRow) error {
		return db.Model(&gormRow{Lock: formsLock}).Where("id = ?", row.ID).Update("v", "x").Error
	},
	"no key, Delete": func(db *gorm.DB, row *gormRow) error { return db.Delete(&gormRow{Lock: formsLock}, row.ID).Error },
	"all rows": func(db *gorm.DB, _ *gormRow) error {
		return db.Session(&gorm.Session{AllowGlobalUpdate: true}).Model(&gormRow{Lock: formsLock}).Update("v", "x").Error
	},
	"a slice, Update": func(db *gorm.DB, row *gormRow) error { return db.Model([]gormRow{*row}).Update("v", "x").Error },
	"a slice, Delete": func(db *gorm.DB, row *gormRow) error { return db.Delete([]gormRow{*row}).Error },
	"a slice, Save": func(db *gorm.DB, row *gormRow) error {
		return db.Save([]gormRow{{ID: row.ID, V: "x", Lock: formsLock}}).Error
	},
	"an upsert": func(db *gorm.DB, row *gormRow) error {
		return db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&gormRow{ID: row.ID, V: "x", Lock: formsLock}).Error
	},
	"another model":  func(db *gorm.DB, row *gormRow) error { return db.Model(&plainRow{ID: row.ID}).Update("v", "x").Error },
	"another's Save": func(db *gorm.DB, row *gormRow) error { return db.Save(&plainRow{ID: row.ID, V: "x"}).Error },
	"another's upsert": func(db *gorm.DB, row *gormRow) error {
		return db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&plainRow{ID: row.ID, V: "x"}).Error
	},
	"another's Delete": func(db *gorm.DB, row *gormRow) error { return db.Delete(&plainRow{ID: row.ID}).Error },
	"a bare table": func(db *gorm.DB, row *gormRow) error {
		return db.Table("guarded").Where("id = ?", row.ID).Update("v", "x").Error
	},
	"an alias": func(db *gorm.DB, row *gormRow) error {
		return db.Table("guarded AS g").Where("g.id = ?", row.ID).Update("v", "x").Error
	},
	"a part of another": func(db *gorm.DB, row *gormRow) error {
		return db.Session(&gorm.Session{DryRun: true}).Save(&parentRow{ID: 7, Rows: []childRow{{ID: row.ID}}}).Error
	},
	"generics": func(db *gorm.DB, row *gormRow) error {
		_, err := gorm.G[gormRow](db).Where("id = ?", row.ID).Update(db.Statement.Context, "v", "x")
		return err
	},
	"an alias with a schema": func(db *gorm.DB, row *gormRow) error {
		return db.Table(schemaOf(db)+".guarded AS g").Where("g.id = ?", row.ID).Update("v", "x").Error
	},
	"an alias in quotes": func(db *gorm.DB, row *gormRow) error {
		return db.Table(db.Statement.Quote(schemaOf(db)+".guarded")+" AS g").Where("g.id = ?", row.ID).Update("v", "x").Error
	},
	"a table as an argument": func(db *gorm.DB, row *gormRow) error {
		return db.Table("? AS g", clause.Table{Name: "guarded"}).Where("g.id = ?", row.ID).Update("v", "x").Error
	},
	"a table in UPDATE": func(db *gorm.DB, row *gormRow) error {
		return db.Model(&aloneRow{ID: row.ID}).Clauses(clause.Update{Table: clause.Table{Name: "guarded"}}).Update("v", "x").Error
	},
	"a table in FROM": func(db *gorm.DB, row *gormRow) error {
		return db.Clauses(clause.From{Tables: []clause.Table{{Name: "guarded"}}}).Where("id = ?", row.ID).Delete(&aloneRow{}).Error
	},
	"a joined table in DELETE": func(db *gorm.DB, row *gormRow) error {
		return db.Clauses(clause.Delete{Modifier: "g"}, clause.From{Tables: []clause.Table{{Name: "alone_rows"}},
			Joins: []clause.Join{{Table: clause.Table{Name: "guarded", Alias: "g"}}}}).Where("g.id = ?", row.ID).Delete(&aloneRow{}).Error
	},
	"a table in INSERT": func(db *gorm.DB, row *gormRow) error {
		return db.Clauses(clause.Insert{Table: clause.Table{Name: "guarded"}}, clause.OnConflict{Columns: []clause.Column{{Name: "id"}},
			DoUpdates: clause.AssignmentColumns([]string{"v"})}).Create(&aloneRow{ID: row.ID, V: "x"}).Error
	},
	"an upsert that says to do nothing, too": func(db *gorm.DB, row *gormRow) error {
		return db.Clauses(clause.OnConflict{DoNothing: true, UpdateAll: true}).Create(&gormRow{ID: row.ID, V: "x", Lock: formsLock}).Error
	},
	"columns of an upsert that says to do nothing": func(db *gorm.DB, row *gormRow) error {
		return db.Clauses(clause.OnConflict{DoNothing: true, DoUpdates: clause.AssignmentColumns([]string{"v"})}).Create(&gormRow{ID: row.ID, V: "x", Lock: formsLock}).Error
	},
	"a model that is not listed": func(db *gorm.DB, row *gormRow) error {
		return db.Model(&childRow{ID: row.ID}).Update("v", 7).Error
	},
	"a listed model of another table": func(db *gorm.DB, row *gormRow) error {
		return db.Unscoped().Table("guarded").Model(&softRow{ID: row.ID, Lock: formsLock}).UpdateColumn("v", "x").Error
	},
	"another model, in quotes": func(db *gorm.DB, row *gormRow) error {
		if db.Name() == "mysql" {
			return db.Model(&backquotedRow{ID: row.ID}).Update("v", "x").Error
		}
		return db.Model(&quotedRow{ID: row.ID}).Update("v", "x").Error
	},
	"SQL as text, and an update": func(db *gorm.DB, row *gormRow) error {
		return db.Raw("UPDATE guarded SET v = 'x' WHERE id = ?", row.ID).Model(row).Update("v", "x").Error
	},
	"another key with its table": func(db *gorm.DB, row *gormRow) error {
		return db.Model(row).Updates(map[string]any{"guarded.id": row.ID + 1_000_000, "v": "x"}).Error
	},
	"another key": func(db *gorm.DB, row *gormRow) error {
		return db.Model(row).Updates(map[string]any{"id": row.ID + 1_000_000, "v": "x"}).Error
	},
	"all columns of a struct without a key": func(db *gorm.DB, row *gormRow) error {
		return db.Model(row).Select("*").Updates(gormRow{V: "x"}).Error
	},
}

// parentRow has guarded rows.
type parentRow struct {
	ID   int64
	Rows []childRow `gorm:"foreignKey:V;references:ID"`
}

// childRow is the guarded row as a part of another. Its parent writes to V.
type childRow struct {
	ID    int64
	V     int64
	Fence gormfence.Token
}

func (childRow) TableName() string { return "guarded" }

func (childRow) FenceLock() string { return formsLock }

// TestGormUnguardedFormsAreErrors: even with the newest token.
func TestGormUnguardedFormsAreErrors(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := newForms(t, e)
		for name, form := range unguardedForms {
			row := f.row()
			if err := form(f.with(768), row); !errors.Is(err, gormfence.ErrUnguarded) {
				t.Errorf("%s: got %v", name, err)
			}
			f.is(name, row.ID, "", 512)
		}
	})
}

// TestGormDeletes: a delete is rejected with an older token, and raises the fence of a row that stays.
func TestGormDeletes(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := newForms(t, e)
		count := func(table string, id int64) (n int) {
			must.OK(t, e.db.QueryRowContext(t.Context(), e.sql("SELECT COUNT(*) FROM "+table+" WHERE id = $1"), id).Scan(&n))
			return n
		}
		row := f.row()
		if err := f.with(511).Delete(row).Error; !errors.Is(err, fence.ErrStale) || count("guarded", row.ID) != 1 {
			t.Errorf("an older token: got %v", err)
		}
		if err := f.with(768).Where("v = ?", "other").Delete(row).Error; err != nil || count("guarded", row.ID) != 1 {
			t.Errorf("a condition that does not hold: got %v", err)
		}
		if err := f.with(768).Delete(row).Error; err != nil || count("guarded", row.ID) != 0 {
			t.Errorf("got %v", err)
		}
		for what, err := range map[string]error{
			"Delete": f.with(768).Delete(row).Error, "Update": f.with(768).Model(row).Update("v", "x").Error, "Enter": gormfence.Enter(f.with(768), row),
			"Save": f.with(768).Save(row).Error,
		} {
			if !errors.Is(err, gorm.ErrRecordNotFound) || count("guarded", row.ID) != 0 {
				t.Errorf("%s of a row that is gone: got %v", what, err)
			}
		}

		soft := &softRow{ID: row.ID, Lock: formsLock}
		must.OK(t, f.with(512).Create(soft).Error)
		state := func() (n int, token int64) {
			must.OK(t, e.db.QueryRowContext(t.Context(), e.sql("SELECT COUNT(deleted_at), MAX(fence) FROM guarded_softly WHERE id = $1"), soft.ID).Scan(&n, &token))
			return n, token
		}
		if n, token := state(); n != 0 || token != 512 {
			t.Errorf("a new row has the fence %d, want the token of its holder", token)
		}
		err := f.with(511).Delete(soft).Error
		if n, token := state(); !errors.Is(err, fence.ErrStale) || n != 0 || token != 512 {
			t.Errorf("softly, an older token: got %v, %d deleted, fence %d", err, n, token)
		}
		must.OK(t, f.with(768).Delete(soft).Error)
		if n, token := state(); n != 1 || token != 768 {
			t.Errorf("softly: %d deleted, fence %d, want 1 and 768", n, token)
		}
		if err := gormfence.Enter(f.with(768), soft); !errors.Is(err, gorm.ErrRecordNotFound) {
			t.Errorf("entering a deleted row: got %v", err)
		}
		if err := f.with(512).Unscoped().Delete(soft).Error; !errors.Is(err, fence.ErrStale) {
			t.Errorf("removing it with an older token: got %v", err)
		}
		must.OK(t, f.with(768).Unscoped().Delete(soft).Error)
	})
}

// TestGormCreates: a row may be created without a lock.
func TestGormCreates(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := newForms(t, e)
		rows := []gormRow{{ID: e.rows.Add(1), V: "a", Lock: formsLock, Fence: 7}, {ID: e.rows.Add(1), V: "b", Lock: "other", Fence: 7}}
		must.OK(t, f.with(512).Create(rows).Error)
		f.is("created by the holder", rows[0].ID, "a", 512)
		f.is("created by another", rows[1].ID, "b", 0)
		must.OK(t, f.Clauses(clause.OnConflict{DoNothing: true}).Create(&gormRow{ID: rows[0].ID, V: "x"}).Error)
		f.is("created again", rows[0].ID, "a", 512)
	})
}

// TestGormRollsBack: what the transaction of a rejected statement did is undone, by GORM's own
// transaction too. A hook runs inside of it.
func TestGormRollsBack(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := newForms(t, e)
		row, other := f.row(), f.row()
		err := f.with(511).Transaction(func(tx *gorm.DB) error {
			if err := e.set(t.Context(), tx.Statement.ConnPool, other.ID, "x"); err != nil {
				return err
			}
			return tx.Model(row).Update("v", "x").Error
		})
		if !errors.Is(err, fence.ErrStale) {
			t.Errorf("got %v", err)
		}
		f.is("in the same transaction", other.ID, "", 512)
		db, err := e.gormOn(e.db, gorm.Config{}, &gormRow{})
		must.OK(t, err)
		must.OK(t, db.Callback().Update().Before("gorm:before_update").Register("test", func(tx *gorm.DB) {
			_ = tx.AddError(e.set(t.Context(), tx.Statement.ConnPool, other.ID, "x"))
		}))
		if err := db.WithContext(holding(t, formsLock, 511, "")).Model(row).Update("v", "x").Error; !errors.Is(err, fence.ErrStale) {
			t.Errorf("got %v", err)
		}
		f.is("in a hook", other.ID, "", 512)
	})
}

// TestGormOlderView: a transaction with an older view of the row is rejected or fails to serialize.
// What its own reads show must not decide.
func TestGormOlderView(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := newForms(t, e)
		row := f.row()
		err := f.with(512).Connection(func(conn *gorm.DB) error {
			if e.name == "mariadb" { // where there is this setting, the older view is found before the guard looks
				_ = conn.Session(&gorm.Session{NewDB: true}).Exec("SET SESSION innodb_snapshot_isolation = OFF").Error
			}
			return conn.Session(&gorm.Session{}).Transaction(func(tx *gorm.DB) error {
				if err := tx.First(&gormRow{}, row.ID).Error; err != nil {
					return err
				}
				if err := f.with(768).Model(&gormRow{ID: row.ID, Lock: formsLock}).Update("v", "new").Error; err != nil {
					return err
				}
				return tx.Model(row).Update("v", "late").Error
			}, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		})
		if err == nil || e.dialect == sqlfence.MySQL && !errors.Is(err, fence.ErrStale) {
			t.Errorf("got %v", err)
		}
		f.is("an older view", row.ID, "new", 768)
	})
}

// TestGormPreparedStatements: GORM's own cache of them, with the field and with the table.
func TestGormPreparedStatements(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		db := e.prepared(t)
		defer db.Close()
		g, err := e.gormOn(db, gorm.Config{PrepareStmt: true}, &gormRow{})
		must.OK(t, err)
		f := &forms{g, t, e}
		table, err := gormfence.NewTable(g, nil)
		must.OK(t, err)
		row := f.row()
		const lock = "prepared with GORM"
		for range 2 {
			must.OK(t, f.with(512).Model(row).Update("v", "x").Error)
			must.OK(t, table.Do(f.WithContext(holding(t, lock, 512, "")), lock, func(tx *gorm.DB) error { return tx.First(&gormRow{}, row.ID).Error }))
			if err := f.with(511).Model(row).Update("v", "late").Error; !errors.Is(err, fence.ErrStale) {
				t.Errorf("field: got %v", err)
			}
			if err := table.Do(f.WithContext(holding(t, lock, 511, "")), lock, func(*gorm.DB) error { return nil }); !errors.Is(err, fence.ErrStale) {
				t.Errorf("table: got %v", err)
			}
		}
		f.is("prepared", row.ID, "x", 512)
	})
}

// TestGormTableDo: the function of a rejected holder is not run, and Do is not nested.
func TestGormTableDo(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := newForms(t, e)
		table, err := gormfence.NewTable(f.DB, nil)
		must.OK(t, err)
		lock := "do with GORM"
		do := func(ctx context.Context, what func(tx *gorm.DB) error) error {
			return table.Do(f.WithContext(ctx), lock, what)
		}
		ran, failed := false, errors.New("failed")
		if err := do(holding(t, lock, 768, ""), func(*gorm.DB) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("got %v, want the function's own error", err)
		}
		must.OK(t, do(holding(t, lock, 512, ""), func(*gorm.DB) error { return nil })) // 768 was rolled back
		if err := do(holding(t, lock, 511, ""), func(*gorm.DB) error { ran = true; return nil }); !errors.Is(err, fence.ErrStale) || ran {
			t.Errorf("an older token: got %v, and the function ran: %v", err, ran)
		}
		if err := do(t.Context(), func(*gorm.DB) error { ran = true; return nil }); !errors.Is(err, fence.ErrNoToken) || ran {
			t.Errorf("no token: got %v, and the function ran: %v", err, ran)
		}
		err = f.WithContext(holding(t, lock, 512, "")).Transaction(func(tx *gorm.DB) error {
			return table.Do(tx, lock, func(*gorm.DB) error { ran = true; return nil })
		})
		if err == nil || ran {
			t.Errorf("Do inside of a transaction: got %v, and the function ran: %v", err, ran)
		}
	})
}
