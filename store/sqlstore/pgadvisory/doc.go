// SPDX-License-Identifier: Apache-2.0

// Package pgadvisory takes the advisory locks of PostgreSQL that migration tools use, so that a Go program excludes them
// on the same database: Rails, with_advisory_lock, golang-migrate, goose, Flyway, Liquibase and Atlas.
//
//	err := pgadvisory.Do(lease.Context(), db, pgadvisory.Rails("app"), nil, migrate) // no Rails migration runs beside it
//
// An advisory lock is not a lease. It belongs to a connection, has no time to live, no token and no queue. Take it beside a
// lease of fencelock, not instead of one: the lease first, and the advisory lock inside, with the context of the lease.
//
//	fencelock lease ──────────────────────────────────────────┐
//	   connection ── pg_try_advisory_lock ── work ── pg_advisory_unlock
//	       └── asked every second whether it is the same backend; if it is not, or does not answer, the context ends
//
// # Keys
//
// There are two spaces of keys that do not overlap, one number of 64 bits and two of 32 bits, for each database. The
// functions of this package compute the keys that the tools use; the tests compare them with known values, and where the tool
// is a Go library with the library itself.
//
// # Failure cases
//
//   - The connection breaks, or the server restarts: the lock is free at once. The context of the Held ends after
//     two intervals at the latest.
//   - The process dies: the server frees the lock when it notices that the connection has ended.
//   - The process is cut off from the server: the server keeps the lock until its tcp_keepalives give up. The context
//     ends after two intervals, so the work stops before.
//   - A pooler in transaction mode gives the backend to another client, or two clients the same one, which would have the
//     lock twice: Lock returns ErrPooled, or the context ends, and the lock is freed on the backend, or the backend is ended.
//     Lock finds the pooler if a second connection of the handle has the same backend, or statements of one connection
//     have two. On a busy pooler, or with a handle of one connection, neither need happen soon; and another tool behind the
//     same pooler is not noticed at all. So connect without one.
//   - The answer to an unlock is lost: the connection is closed, and the lock is free.
//   - The same key is taken twice by one process: it waits for itself, since each call has its own connection.
package pgadvisory
