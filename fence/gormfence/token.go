// SPDX-License-Identifier: Apache-2.0

package gormfence

import (
	"errors"
	"fmt"
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// Token is the type of the field that keeps the newest token a row has seen: a BIGINT, 0 or
// NULL in a row that no holder has entered. The guard writes it; a program need not.
type Token int64

// Fenced is a model that is guarded. It has one field of type Token.
type Fenced interface {
	// FenceLock returns the name of the lock of this row. Only the fields of the primary key
	// are sure to be set. Every process must name the same lock for a row: if the database takes the
	// keys abc and ABC for one, as MySQL does with most collations, so must the name.
	FenceLock() string
}

// ErrUnguarded: the statement would write past the guard, and was not run. The error says
// how to write it.
var ErrUnguarded = errors.New("gormfence: a statement that cannot be guarded")

func unguarded(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnguarded, fmt.Sprintf(format, args...))
}

// UpdateClauses lets GORM ask for the guard, also in a program that has forgotten the plugin.
func (Token) UpdateClauses(*schema.Field) []clause.Interface { return []clause.Interface{demand{}} }

// DeleteClauses does the same for deletes.
func (Token) DeleteClauses(*schema.Field) []clause.Interface { return []clause.Interface{demand{}} }

// demand is a clause that adds nothing to a statement. GORM shows it the statement before
// it is built, and demand stops a statement that the plugin has not seen.
type demand struct{}

// Name implements clause.Interface.
func (demand) Name() string { return "" }

// Build implements clause.Interface.
func (demand) Build(clause.Builder) {}

// MergeClause implements clause.Interface.
func (demand) MergeClause(*clause.Clause) {}

// ModifyStatement implements gorm.StatementModifier.
func (demand) ModifyStatement(stmt *gorm.Statement) {
	if stmt.DB.Error != nil {
		return
	}
	switch g := guardOf(stmt.DB); {
	case g == nil:
		_ = stmt.AddError(unguarded("%s has a gormfence.Token, and the plugin is not there; call db.Use(gormfence.New(&%s{})) when the program starts",
			stmt.Schema.Name, stmt.Schema.Name))
	case !g.ready:
		_ = stmt.AddError(unguarded("another plugin has replaced the callback of GORM that sends it; call db.Use(gormfence.New(&%s{})) after the other plugins", stmt.Schema.Name))
	}
}

// tokenField returns the field of type Token, or nil.
func tokenField(s *schema.Schema) *schema.Field {
	for _, f := range s.Fields {
		if f.IndirectFieldType == reflect.TypeFor[Token]() && f.DBName != "" {
			return f
		}
	}
	return nil
}
