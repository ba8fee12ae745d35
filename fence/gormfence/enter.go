// SPDX-License-Identifier: Apache-2.0

package gormfence

import (
	"fmt"
	"reflect"
	"slices"

	"gorm.io/gorm"

	"github.com/fencelock/fencelock/fence"
)

// Enter raises the fence of a row to the token that the context of db carries, and then
// reads the row. Do this before any other read inside the lock. The primary key of row must be
// set; what db has in Preload, Select or Where is for the read, and Table is for both:
//
//	order := Order{ID: 42}
//	err := gormfence.Enter(db.WithContext(ctx), &order)
//
// It returns an error that wraps fence.ErrStale if a newer token was there, and
// gorm.ErrRecordNotFound if there is no such row.
func Enter(db *gorm.DB, row Fenced) error {
	if reflect.ValueOf(row).Kind() != reflect.Pointer {
		return fmt.Errorf("gormfence: Enter reads into the row; pass a pointer to the %T", row)
	}
	if _, err := fence.FromContext(db.Statement.Context, row.FenceLock()); err != nil {
		return err // before a transaction begins
	}
	stmt := &gorm.Statement{DB: db}
	if err := stmt.Parse(row); err != nil {
		return fmt.Errorf("gormfence: %T: %w", row, err)
	}
	field := tokenField(stmt.Schema)
	if field == nil {
		return unguarded("%T has no field of type gormfence.Token", row)
	}
	// One transaction, so that the read goes to the server on which the fence was raised.
	return inTransaction(db, func(tx *gorm.DB) error {
		raised := raising(db.Statement, tx, row).UpdateColumn(field.DBName, 0) // the guard puts the token there
		if raised.Error != nil {
			return raised.Error
		}
		if raised.RowsAffected == 0 { // it is deleted, and a soft delete leaves it there
			return fmt.Errorf("gormfence: %s has no such row: %w", stmt.Table, gorm.ErrRecordNotFound)
		}
		read := tx.First(row)
		if read.Error == nil && !slices.Equal(written(read.Statement), written(raised.Statement)) {
			return unguarded("a scope made Enter read from %s, and the fence was raised in %s; name the table with Table", read.Statement.Table, raised.Statement.Table)
		}
		return read.Error
	})
}

// inTransaction runs f in the transaction of db, or in a new one.
func inTransaction(db *gorm.DB, f func(tx *gorm.DB) error) error {
	if _, begun := db.Statement.ConnPool.(gorm.TxCommitter); begun {
		return f(db)
	}
	return db.Transaction(f)
}
