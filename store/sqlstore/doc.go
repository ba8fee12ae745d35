// SPDX-License-Identifier: Apache-2.0

// Package sqlstore keeps locks in tables of PostgreSQL (13 or later), MariaDB (10.6) or
// MySQL (8.0.21), beside the data they are about.
//
// With your own database handle, which the store never closes:
//
//	db, err := sql.Open("pgx", "postgres://app@db.example.com/app")
//	err = sqlstore.Migrate(ctx, db, nil) // or apply sqlstore.Schema by other means
//	store, err := sqlstore.New(db, nil)
//	locks, err := fencelock.New(store, nil)
//
// With a URL; the store then owns its handle:
//
//	store, err := sqlstore.Open(ctx, "mysql://app:secret@db.example.com/app", nil)
//	defer store.Close()
//
// # How it is built
//
// There are leases in tables, and no lock is a session lock (advisory locks, GET_LOCK): those
// hang on a connection, which a pooler gives to another client, and have no token.
//
//	incarnation (1 row)      session (1 row a process)    lock (1 row a name)
//	┌──────────────────┐     ┌───────────────────────┐    ┌───────────────────────────────┐
//	│ server, settings │     │ id, generation, ends  │◀───│ holder, token counter, record │
//	│ floor of tokens  │     └───────────────────────┘    │ queue: who waits, in order    │
//	└──────────────────┘       KeepAlive: ends = now+TTL  └───────────────────────────────┘
//
// Every statement commits by itself, and writes one row; only closing a session and
// reclaiming after a failover write many. Nothing is held between two statements, so a
// process that stops anywhere stops no other, and every statement may go to another
// connection. All times are by the server's clock.
//
//	lock a free name                 1 statement
//	unlock                           1 statement, which also grants to the first in the queue, or, on PostgreSQL, does not wait for the disk
//	wait for a held name             2 statements, 3 on MySQL, then a notification, a handoff lock or polls
//	the same, in a quick queue       1 statement
//	give up waiting                  1 statement
//	keep any number of leases alive  1 statement each third of the TTL, on PostgreSQL 2 after an unlock
//
// These are for the plain case, an exclusive lock without holds. Whatever else there is
// (readers, weights, limits, re-entry, holds, a session that ended) is decided in Go, once
// for all dialects: read the row, decide, write it back if its version is still the one
// that was read.
//
// # Waking
//
// On PostgreSQL with pgx the process that is granted a lock is notified by NOTIFY, in the
// commit that grants it, and listens on one connection for all its locks. The store finds out
// by a message to itself whether that works.
//
// On MySQL and MariaDB each queued claim has a handoff lock, a named lock on a dedicated connection, until
// it is gone. The claim behind waits for that, and then reads the row, which alone grants:
//
//	claim A: queued ── has lock 1 ─────────────── granted ── released: lock 1 is free
//	claim B:        queued ── has lock 2 ── waits for lock 1 ······┘ reads the row: granted
//
// Everywhere else, through a pooler or proxy that shares connections too, a process polls the row.
//
// # Failure cases
//
//   - The answer to a statement is lost, the commit included: the outcome is unknown, and
//     the same claim finds what became of it.
//   - A process dies: its session ends, and the next caller takes what it had. Before
//     that the row of the session is deleted, so that a clock which is set back cannot
//     revive it.
//   - The server crashes and restarts: what was acknowledged is there, if it waits for its
//     disk (Store.Check reports it). A position in the queue may be lost, and is taken again.
//     On PostgreSQL the last unlock of a lock that nobody waited for may be undone: the session
//     repeats it after its next keep-alive, unless it has ended, and the lock with it.
//   - A replica takes over: its identity (system identifier and timeline; server id, uuid
//     and host name) is not that of the incarnation row, so a new incarnation begins.
//     Tokens go on from the clock, sessions are opened again, grants that survived are
//     confirmed. If the replica lagged, a grant may be missing: with Options.Grace nothing
//     new is granted until its holder has put it back, without it a second holder is
//     possible, with a higher token.
//   - The tables are emptied: the same.
//   - A backup is restored in place, on the same server and timeline: nothing shows it.
//     Delete the row of the incarnation table afterwards.
//   - The connection of a handoff lock is lost or silent, or a process hangs: the claim behind reads the
//     row after a second and a second more for each place, half of its TTL at most.
//   - The server has no connection to spare, or a proxy shares connections: claims poll.
//   - Two statements meet (deadlock, serialization failure): the one that was refused is
//     repeated inside the call.
//
// docs/sql.md of the repository has permissions, settings, costs, and what it looks like
// from the server's own tools.
//
// # URLs
//
// [Open] and [FromURL] take:
//
//	postgres://[user[:password]@]host[:port][,host[:port]...][/database][?parameters]
//	mysql://[user[:password]@]host[:port]/database[?parameters]
//
// The parameters of all databases follow. A setting that is also in opts must have the
// same value there.
//
//	namespace     Options.Namespace
//	grace         Options.Grace, true or false
//	max_ttl       Options.MaxTTL, as 30s
//	accept        Options.Accept, with commas between
//	migrate       true creates the tables if they are missing
//
// Of PostgreSQL the others are those of libpq: sslmode, sslrootcert, sslcert, sslkey,
// connect_timeout, target_session_attrs, application_name and so on. Of MySQL and
// MariaDB there are
//
//	tls           true, or preferred for a server that may have none
//	tls_ca, tls_cert, tls_key, tls_server_name
//	              files and name as redisstore.Open has them; each of them turns TLS on
//	dial_timeout  how long connecting may take, 5s
//
// Its connections to MySQL and MariaDB commit each statement, use READ COMMITTED and wait a second
// at most for a locked row; a handle that is given to New needs the same, see docs/sql.md.
//
// A finding of the severity Danger is an error with the reason and the setting to change
// (driver.ErrRefused), unless its code is accepted. The others go to Options.Warn.
//
// Characters with a meaning in URLs are escaped: %40 for @, %2F for /, %25 for %. A URL
// with a password does not belong in a command line, where every user of the machine can
// read it: take it from the environment or a file.
package sqlstore
