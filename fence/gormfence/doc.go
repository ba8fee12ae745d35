// SPDX-License-Identifier: Apache-2.0

// Package gormfence guards rows that a program writes with GORM, in PostgreSQL, MySQL and
// MariaDB. A model is guarded by a field of type Token and a method that names its lock:
//
//	type Order struct {
//		ID    int64
//		State string
//		Fence gormfence.Token
//	}
//
//	func (o Order) FenceLock() string { return fmt.Sprintf("orders/%d", o.ID) }
//
//	err := db.Use(gormfence.New(&Order{})) // once per program
//
// Inside the lock, raise the fence and read with Enter, and write as always:
//
//	db := db.WithContext(ctx) // the context of the lease carries the token
//	order := Order{ID: 42}
//	err := gormfence.Enter(db, &order)
//	err = db.Model(&order).Update("state", "paid").Error // errors.Is(err, fence.ErrStale): too late
//
// For a transaction that changes other rows as well there is Table, with the fences of
// package sqlfence. Use one of the two for a lock: they do not see each other's tokens.
//
// # How it holds
//
// Every update and delete of such a model gets the key of the row, a condition on the fence,
// and the token as a new value, in the one statement that GORM sends:
//
//	UPDATE orders SET state = 'paid', fence = 768
//	WHERE (your conditions) AND id = 42 AND COALESCE(fence, 0) <= 768
//
// An update that sets no other column, as Association.Append makes it, is sent for the fence alone.
// If it changes no row, the guard reads the fence of the row and returns fence.ErrStale if a
// newer token is there. GORM rolls its transaction back.
//
// # What is an error
//
// A statement that cannot be guarded is not run, and returns an error that wraps ErrUnguarded:
//
//   - an update or delete whose model has no key: Model(&Order{}).Where(...), or a slice;
//   - one through another model, or Table("orders"), of a table that is guarded;
//   - an update that changes the primary key, such as Select("*") with a struct that has none;
//   - an upsert: OnConflict with updates, Save of a slice, a row that GORM saves with its parent;
//   - a model with a Token in a program without the plugin, or in which another plugin has replaced the
//     callbacks of GORM that the guard is around.
//
// Without a token in the context the error wraps fence.ErrNoToken. Unscoped, UpdateColumn, Select,
// maps and Save are guarded like every other update. A missing row is gorm.ErrRecordNotFound.
//
// # What it cannot see
//
//   - SQL as text: Exec and Raw. Enter the rows that it writes before, in the same transaction: the
//     fence is up then, and the rows are locked until the commit.
//   - Association.Clear and Delete, which write to the other table alone. Do the same.
//   - Writes through a view, and those that the database makes itself, as by ON DELETE CASCADE.
//   - Rows of other models that GORM saves along, as associations. They are rolled back with the
//     transaction of the statement; with SkipDefaultTransaction and no transaction of your
//     own, they are not.
//   - Hooks of your models that write by other ways.
//
// # Failure cases
//
//   - Rejected: fence.ErrStale. Nothing was changed.
//   - A deleted row has no fence any more: an earlier holder may create the row again. A row
//     with a DeletedAt keeps its fence.
//   - Any other error of a write, or of a commit: the outcome is unknown. Enter again with the
//     same token.
//   - The condition names the key: a row whose primary key is the zero value cannot be guarded.
package gormfence
