// SPDX-License-Identifier: Apache-2.0

package gormfence

import (
	"reflect"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/fencelock/fencelock/fence"
)

// create stops upserts, and gives new rows the token that the context carries. A row may be
// created without a lock: no other holder knows it yet.
func (p *Plugin) create(db *gorm.DB, send func(*gorm.DB)) {
	stmt := db.Statement
	if db.Error == nil && p.fenced(stmt) {
		_ = db.AddError(text(stmt))
		if c, ok := stmt.Clauses["ON CONFLICT"].Expression.(clause.OnConflict); ok && (!c.DoNothing || c.UpdateAll || len(c.DoUpdates) > 0) {
			_ = db.AddError(unguarded("an upsert may change a row of %s; create it or update it, and leave it out of the row that it comes with: Omit(clause.Associations)", stmt.Table))
		} else if stmt.Schema != nil && tokenField(stmt.Schema) != nil {
			_ = db.AddError(mark(stmt, tokenField(stmt.Schema)))
		}
	}
	send(db)
}

// mark gives the new rows of a statement their fences. If one has a token, the fence is among the
// columns that are written, whatever Select and Omit say: an older holder may know the key
// of the row, and would be admitted.
func mark(stmt *gorm.Statement, field *schema.Field) error {
	entered, err := marked(stmt, field)
	if !entered || err != nil {
		return err
	}
	if len(stmt.Selects) > 0 {
		stmt.Selects = append(slices.Clip(stmt.Selects), field.DBName)
	}
	stmt.Omits = slices.DeleteFunc(slices.Clone(stmt.Omits), func(name string) bool {
		return stmt.Schema.LookUpField(name[strings.LastIndexByte(name, '.')+1:]) == field
	})
	return nil
}

// marked reports whether a row got a token.
func marked(stmt *gorm.Statement, field *schema.Field) (entered bool, err error) {
	switch rows := reflect.Indirect(reflect.ValueOf(stmt.Dest)).Interface().(type) {
	case map[string]any:
		return markMap(stmt, field, rows), nil
	case []map[string]any:
		for _, row := range rows {
			entered = markMap(stmt, field, row) || entered
		}
		return entered, nil
	}
	set := func(v reflect.Value) {
		v = reflect.Indirect(v)
		if err != nil || !v.IsValid() || v.Type() != stmt.Schema.ModelType || !v.CanAddr() {
			return
		}
		token := tokenOf(stmt, v)
		entered = entered || token != 0
		err = field.Set(stmt.Context, v, token)
	}
	switch stmt.ReflectValue.Kind() {
	case reflect.Struct:
		set(stmt.ReflectValue)
	case reflect.Slice, reflect.Array:
		for i := range stmt.ReflectValue.Len() {
			set(stmt.ReflectValue.Index(i))
		}
	}
	return entered, err
}

// markMap does it for a row that is a map, and reports whether it got a token.
func markMap(stmt *gorm.Statement, field *schema.Field, row map[string]any) bool {
	model, given := reflect.New(stmt.Schema.ModelType).Elem(), false
	for name, value := range row {
		switch f := stmt.Schema.LookUpField(name); {
		case isColumn(name, field) || f == field: // the guard alone writes the fence
			delete(row, name)
			given = true
		case f != nil && f.PrimaryKey:
			_ = f.Set(stmt.Context, model, value) // an expression has no value yet, and names no lock
		}
	}
	token := tokenOf(stmt, model)
	if row != nil && (given || token != 0) {
		row[field.DBName] = token
	}
	return token != 0
}

// tokenOf returns the token that the context carries for a new row, or 0.
func tokenOf(stmt *gorm.Statement, v reflect.Value) int64 {
	model, ok := modelOf(v)
	if !ok || keyOf(stmt, v) == nil {
		return 0
	}
	m, err := fence.FromContext(stmt.Context, model.FenceLock())
	if err != nil {
		return 0
	}
	return int64(m.Token)
}
