// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/gormfence"
	"github.com/fencelock/fencelock/internal/must"
)

// schemaOf is the schema that the tables are in.
func schemaOf(db *gorm.DB) string {
	if db.Name() == "mysql" {
		return "test"
	}
	return "public"
}

// TestGormNamingStrategyDoesNotHideARejection: the columns have the names of the fields here.
func TestGormNamingStrategyDoesNotHideARejection(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		_, err := e.db.ExecContext(t.Context(), e.quoted(`CREATE TABLE IF NOT EXISTS "NamedRow" ("ID" BIGINT PRIMARY KEY, "V" VARCHAR(100), "Guard" BIGINT)`))
		must.OK(t, err)
		db, err := e.gormOn(e.db, gorm.Config{NamingStrategy: schema.NamingStrategy{NoLowerCase: true, SingularTable: true, NameReplacer: strings.NewReplacer("Fence", "Guard")}}, &NamedRow{})
		must.OK(t, err)
		id := e.rows.Add(1)
		must.OK(t, db.Create(&NamedRow{ID: id}).Error)
		must.OK(t, gormfence.Enter(db.WithContext(holding(t, formsLock, 768, "")), &NamedRow{ID: id}))
		if err := db.WithContext(holding(t, formsLock, 512, "")).Model(&NamedRow{ID: id}).Update("V", "x").Error; !errors.Is(err, fence.ErrStale) {
			t.Errorf("an older token: got %v", err)
		}
	})
}

// NamedRow has a table and columns as they are written here.
type NamedRow struct {
	ID    int64
	V     string
	Fence gormfence.Token
}

// FenceLock implements gormfence.Fenced.
func (NamedRow) FenceLock() string { return formsLock }

// quoted writes names in the dialect.
func (e *database) quoted(text string) string {
	if e.name == "postgres" {
		return text
	}
	return strings.ReplaceAll(text, `"`, "`")
}

// TestGormUpdateOfADeletedRowIsNotCounted: the row is there, and the update does not find it.
func TestGormUpdateOfADeletedRowIsNotCounted(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := newForms(t, e)
		soft := &softRow{ID: e.rows.Add(1), V: "a", Lock: formsLock}
		must.OK(t, f.with(512).Create(soft).Error)
		for range 2 { // the second changes nothing
			if tx := f.with(768).Model(soft).Update("v", "b"); tx.Error != nil || tx.RowsAffected != 1 {
				t.Errorf("a row: %d rows, %v", tx.RowsAffected, tx.Error)
			}
			if tx := f.with(768).Model(soft).Where("v <> ?", "c").Update("v", "b"); tx.Error != nil || tx.RowsAffected != 1 {
				t.Errorf("a condition that holds: %d rows, %v", tx.RowsAffected, tx.Error)
			}
			must.OK(t, f.with(768).Save(soft).Error)
		}
		if tx := f.with(768).Model(soft).Where("v = ?", "c").Update("v", "b"); tx.Error != nil || tx.RowsAffected != 0 {
			t.Errorf("a condition that does not hold: %d rows, %v", tx.RowsAffected, tx.Error)
		}
		must.OK(t, f.with(768).Delete(soft).Error)
		if tx := f.with(768).Model(&softRow{ID: soft.ID, Lock: formsLock}).Update("v", "x"); tx.RowsAffected != 0 {
			t.Errorf("a deleted row: %d rows are said to be updated, %v", tx.RowsAffected, tx.Error)
		}
		if err := f.with(768).Save(&softRow{ID: soft.ID, V: "x", Lock: formsLock}).Error; err == nil {
			t.Error("Save of a deleted row was not done, and returned no error")
		}
	})
}

// TestGormEnterRaisesWhereItReads: in the table that the handle names.
func TestGormEnterRaisesWhereItReads(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := newForms(t, e)
		_, err := e.db.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS guarded_2026 (id BIGINT PRIMARY KEY, v VARCHAR(100) NOT NULL, fence BIGINT)")
		must.OK(t, err)
		for name, at := range map[string]func(db *gorm.DB) *gorm.DB{
			"Table": func(db *gorm.DB) *gorm.DB { return db.Table("guarded_2026") },
			"Scopes": func(db *gorm.DB) *gorm.DB {
				return db.Scopes(func(d *gorm.DB) *gorm.DB { return d.Table("guarded_2026") })
			},
		} {
			row := f.row()
			must.OK(t, e.insertInto(t.Context(), "guarded_2026", row.ID))
			err := gormfence.Enter(at(f.with(768)), &gormRow{ID: row.ID, Lock: formsLock})
			if err != nil {
				t.Logf("%s: %v", name, err)
				if name == "Table" {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if err := at(f.with(512)).Model(&gormRow{ID: row.ID, Lock: formsLock}).Update("v", "late").Error; !errors.Is(err, fence.ErrStale) {
				t.Errorf("%s, an older token after the entry of a newer one: got %v", name, err)
			}
		}
	})
}

// TestGormSoftDeleteInAnotherTable: the fence is raised where the row is.
func TestGormSoftDeleteInAnotherTable(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := newForms(t, e)
		kind := map[string]string{"postgres": "timestamp"}[e.name]
		if kind == "" {
			kind = "datetime(6)"
		}
		_, err := e.db.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS guarded_softly_2026 (id BIGINT PRIMARY KEY, v VARCHAR(100) NOT NULL, fence BIGINT, deleted_at "+kind+" NULL)")
		must.OK(t, err)
		id := e.rows.Add(1)
		must.OK(t, e.insertInto(t.Context(), "guarded_softly_2026", id))
		must.OK(t, f.with(768).Table("guarded_softly_2026").Delete(&softRow{ID: id, Lock: formsLock}).Error)
		var token int64
		must.OK(t, e.db.QueryRowContext(t.Context(), e.sql("SELECT COALESCE(fence, 0) FROM guarded_softly_2026 WHERE id = $1 AND deleted_at IS NOT NULL"), id).Scan(&token))
		if token != 768 {
			t.Errorf("the fence is %d", token)
		}
	})
}

func (e *database) insertInto(ctx context.Context, table string, id int64) error {
	_, err := e.db.ExecContext(ctx, e.sql("INSERT INTO "+table+" (id, v) VALUES ($1, '')"), id)
	return err
}

// version is a field that counts updates, as GORM's optimistic lock does.
type version int64

func (version) UpdateClauses(f *schema.Field) []clause.Interface {
	return []clause.Interface{counting{f}}
}

type counting struct{ field *schema.Field }

func (counting) Name() string               { return "" }
func (counting) Build(clause.Builder)       {}
func (counting) MergeClause(*clause.Clause) {}
func (c counting) ModifyStatement(stmt *gorm.Statement) {
	if _, done := stmt.Clauses["version_enabled"]; done {
		return
	}
	if v, zero := c.field.ValueOf(stmt.Context, stmt.ReflectValue); !zero {
		stmt.AddClause(clause.Where{Exprs: []clause.Expression{clause.Eq{Column: clause.Column{Table: clause.CurrentTable, Name: c.field.DBName}, Value: reflect.ValueOf(v).Int()}}})
	}
	if m, ok := stmt.Dest.(map[string]any); ok {
		m[c.field.DBName] = clause.Expr{SQL: stmt.Quote(c.field.DBName) + "+1"}
	}
	stmt.Clauses["version_enabled"] = clause.Clause{}
}

// versionedRow has a fence and an optimistic lock.
type versionedRow struct {
	ID      int64
	V       string
	Fence   gormfence.Token
	Version version
}

func (versionedRow) TableName() string { return "guarded_versions" }
func (versionedRow) FenceLock() string { return formsLock }

// TestGormOptimisticLockWorksBesideTheFence: its field changes the statement, too.
func TestGormOptimisticLockWorksBesideTheFence(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		_, err := e.db.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS guarded_versions (id BIGINT PRIMARY KEY, v VARCHAR(100) NOT NULL, fence BIGINT, version BIGINT)")
		must.OK(t, err)
		db, err := e.gormOn(e.db, gorm.Config{}, &versionedRow{})
		must.OK(t, err)
		db = db.WithContext(holding(t, formsLock, 512, ""))
		id := e.rows.Add(1)
		must.OK(t, db.Create(&versionedRow{ID: id, Version: 1}).Error)
		if tx := db.Model(&versionedRow{ID: id, Version: 1}).Update("v", "x"); tx.Error != nil || tx.RowsAffected != 1 {
			t.Fatalf("%d rows, %v", tx.RowsAffected, tx.Error)
		}
		var got versionedRow
		must.OK(t, db.First(&got, id).Error)
		if got.Version != 2 || got.V != "x" || got.Fence != 512 {
			t.Errorf("the row is %+v, want version 2", got)
		}
		if tx := db.Model(&versionedRow{ID: id, Version: 1}).Update("v", "y"); tx.Error != nil || tx.RowsAffected != 0 {
			t.Errorf("an older version: %d rows, %v", tx.RowsAffected, tx.Error)
		}
	})
}
