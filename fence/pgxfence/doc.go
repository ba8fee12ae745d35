// SPDX-License-Identifier: Apache-2.0

// Package pgxfence guards data in PostgreSQL that a program writes with pgx: in a
// transaction, in a batch, or in one row.
//
//	guard, err := pgxfence.NewTable(nil)          // once per program
//	_, err = pool.Exec(ctx, guard.Schema())       // or in your migrations
//
//	err = guard.Do(ctx, pool, "orders/42", func(ctx context.Context, tx pgx.Tx) error {
//		// read, then write, with tx
//	})
//	// errors.Is(err, fence.ErrStale): a newer holder was there first
//
// The table of fences and the columns are those of package sqlfence, so writers with pgx
// and writers with database/sql share one fence. The token comes from the context of the
// lease.
//
//   - Table.Do begins a transaction, raises the fence, runs a function and commits.
//   - Table.Raise does that in your own transaction. It must be the first statement.
//   - Table.SendBatch sends a batch behind the fence, without a round trip more.
//   - Row keeps the fence in a column of the guarded row.
//
// # How it holds
//
// The statement that raises the fence locks its row until the transaction ends, so holders
// of one lock go through one after the other. It fails if a newer token was there. The
// server then refuses every further statement of the transaction:
//
//	BEGIN                                          a batch, which is a transaction up to Sync
//	raise: INSERT ... WHERE token <= mine          raise
//	       none admitted: the statement fails      fails: the server skips all up to Sync
//	SELECT ...                                     SELECT ...
//	UPDATE ...                                     UPDATE ...
//	COMMIT                                         Sync
//
// So a caller that does not look at the error of Raise cannot write either. The guards of
// sqlfence look at the number of changed rows instead; in a batch that is too late, because
// the other statements have run by then.
//
// # Failure cases
//
//   - Rejected: fence.ErrStale. The transaction or the batch changed nothing. The server's
//     log has an error about a bigint that begins with "fencelock: a newer token".
//   - An error of the commit, or of a batch that has been sent: the outcome is unknown. Enter
//     again with the same token and read.
//   - A deadlock or a serialization failure: nothing was done. Try again while the lease is held.
//   - A batch with BEGIN, COMMIT or ROLLBACK in it is not one transaction: what comes after
//     is not guarded. The same holds for a transaction in which Raise is rejected after a
//     savepoint, and which is rolled back to that savepoint only.
//   - A deleted row of the table of fences admits every token. Delete it only together with
//     the data, when no earlier holder can be alive.
//   - What is read from a replica may be older than the fence.
package pgxfence
