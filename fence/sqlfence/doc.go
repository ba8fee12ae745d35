// SPDX-License-Identifier: Apache-2.0

// Package sqlfence guards data behind database/sql: PostgreSQL, MySQL and
// MariaDB. There are two guards, and each adds one statement:
//
//   - Table keeps one row per lock in a table of fences and guards a whole
//     transaction, whatever it touches. Its statement must be the first.
//   - Row keeps the token in a column of the guarded row itself. Row.Check finds
//     a column that does not keep every token.
//
// Table.Do is the everyday call. It takes the token from the context of the
// lease, raises the fence, runs the function in that transaction and commits:
//
//	guard, err := sqlfence.NewTable(sqlfence.PostgreSQL, nil) // once per program
//	_, err = db.ExecContext(ctx, guard.Schema())              // or in your migrations
//
//	err = guard.Do(ctx, db, "orders/42", func(ctx context.Context, tx *sql.Tx) error {
//		// read, then write, with tx
//	})
//	// errors.Is(err, fence.ErrStale): a newer holder was there first
//
// Why it holds: the statement that raises the fence locks its row until the
// transaction ends, so holders of one lock go through one after the other, and
// everything the function reads was read after the fence was up.
//
//	BEGIN
//	INSERT ... ON CONFLICT DO UPDATE ... WHERE token <= mine   ◀ waits for the row
//	SELECT ...   what no older holder can change any more
//	UPDATE ...
//	COMMIT                                                     ◀ row free, fence and data durable together
//
// # Tested servers and drivers
//
// Package lab/e2e proves both guards on PostgreSQL with the driver pgx, and on
// MariaDB and MySQL with go-sql-driver/mysql; with prepared statements all but the
// restart. Other drivers have not been tried. A driver must answer
// Result.RowsAffected with PostgreSQL and Result.LastInsertId with MySQL; one that
// does not gets an error, not a refusal.
//
// For pgx without database/sql there is package pgxfence, and for GORM gormfence.
// Both use the tables and columns of this package. Other libraries: Database.
//
// # Slow work
//
// A transaction that stays open over slow work keeps the next holder waiting,
// also after the lease is lost. Do the work between two transactions, each with
// its own Do: the first reads, the second writes, and the fence stays up in
// between.
//
// # Failure cases
//
//   - Refused: fence.ErrStale. The transaction is rolled back.
//   - An error at COMMIT: the outcome is unknown, as with any database. Enter
//     again with the same token and look.
//   - A deadlock or a serialization failure, which the driver reports: nothing
//     was done. Try again while the lease is held. READ COMMITTED, and every
//     stronger level, is enough.
//   - A row of the table of fences that is deleted opens the door for every
//     token. Delete it together with the data, or when no holder from before
//     can be alive any more, and no earlier.
//   - A statement that does not go through the guard is not guarded, and what is
//     read from a replica may be older than the fence: read where it is raised.
package sqlfence
