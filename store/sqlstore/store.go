// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"
)

// minTTL is the shortest session: a keep-alive is a commit, and a pause of the disk
// must not end it.
const minTTL = 100 * time.Millisecond

// Store is a store on an SQL database. Make one with New or Open. It is safe for
// concurrent use.
type Store struct {
	db           *sql.DB
	opts         Options
	dialect      Dialect
	pgx          bool
	known        bool        // the driver is pgx or go-sql-driver, whose errors mean what they say
	pooled       atomic.Bool // statements go to any connection: prepare none
	closeDB      bool        // Open or FromURL made the handle
	gate         storekit.Gate
	fitted       atomic.Bool // the database was found fit to keep locks
	listener     listener
	attendants   attendants
	handoffLocks handoffLocks
	waker        waker // one of listener, handoffLocks and pollWaker
	sweeper      sweeper
	recent       recent
	retries      retries
	memory       memory

	mu         sync.Mutex
	ready      bool // texts are there
	texts      texts
	statements map[string]*sql.Stmt
}

var _ driver.Store = (*Store)(nil)

// New returns a store that uses the database, which stays the caller's; Store.Close
// releases what the store has there. A nil opts is fine. New does no I/O.
//
// The database handle must have room for more than one connection. While claims wait, and up to
// a minute longer, one is used for listening on PostgreSQL, and up to four on MySQL and MariaDB,
// one for each claim that waits. The stores of a handle keep half of its connections at most.
func New(db *sql.DB, opts *Options) (*Store, error) {
	if db == nil {
		return nil, errors.New("sqlstore: New needs a database, for example sql.Open(\"pgx\", url)")
	}
	o, err := opts.filled()
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, opts: o, dialect: o.Dialect, statements: map[string]*sql.Stmt{}}
	switch d := db.Driver().(type) {
	case *stdlib.Driver:
		s.pgx, s.known = true, true
		err = s.speaks(PostgreSQL)
	case *mysql.MySQLDriver:
		s.known = true
		err = s.speaks(MySQL)
	default:
		if kind := fmt.Sprintf("%T", d); s.dialect == Auto && strings.HasPrefix(kind, "*pq.") {
			s.dialect = PostgreSQL
		}
	}
	if err == nil && s.dialect == Auto {
		err = fmt.Errorf("sqlstore: the dialect of the driver %T is not known; set Options.Dialect", db.Driver())
	}
	if err != nil {
		return nil, err
	}
	s.pooled.Store(o.Pooler)
	s.gate = storekit.Gate{Package: "sqlstore", Engine: s.dialect.String(), Accept: o.Accept, Never: neverAccepted, Warn: o.Warn}
	s.memory.init(&o)
	s.listener.init(s)
	s.handoffLocks.init(s)
	s.waker = newWaker(s)
	s.sweeper.init(s)
	if s.dialect == PostgreSQL {
		s.texts, s.ready = newTexts(s.dialect, o.prefix(), pgIdentity, pgServer, s.notifies()), true
	}
	return s, nil
}

// speaks compares what the driver speaks with the options.
func (s *Store) speaks(d Dialect) error {
	if s.dialect != Auto && s.dialect != d {
		return fmt.Errorf("sqlstore: Options.Dialect is %v, and the driver %T speaks %v", s.dialect, s.db.Driver(), d)
	}
	s.dialect = d
	return nil
}

// notifies reports whether this process has the server notify a waiter that it grants a lock. A
// waiter of another process that listens finds a grant without a notification when it attempts again, once in a TTL.
func (s *Store) notifies() bool { return s.dialect == PostgreSQL && !s.opts.Poll }

// listens reports whether this process tries to listen.
func (s *Store) listens() bool { return s.notifies() && s.pgx && !s.opts.Pooler }

// notice is how soon a holder is notified that a claim waits behind it. With the polls of
// idle holders a lock that lingers would not cost less than one that is locked again, so
// where no process listens it is the next renewal, and locks do not linger.
func (s *Store) notice() driver.Notice {
	if s.listens() {
		return driver.NoticeAtOnce
	}
	return driver.NoticeAtRenewal
}

// prepare makes the statements. MySQL and MariaDB call their identity by different
// names, and have not all of them.
//
// A connection without autocommit has no identity, so no statement grants anything there. To ask
// for it once, here, would not do: later connections have other settings if the server's change.
func (s *Store) prepare(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlstore: %w", err)
	}
	s.mu.Lock()
	ready := s.ready
	s.mu.Unlock()
	if ready {
		return nil
	}
	var ident string
	begin := func() { ident = "CONCAT(@@server_id, '/', @@hostname" }
	err := s.rows(ctx, "identity", "SHOW VARIABLES WHERE Variable_name IN ('server_uuid', 'server_uid')", nil, begin, func(r *sql.Rows) error {
		var name, value string
		if err := r.Scan(&name, &value); err != nil {
			return err
		}
		ident += ", '/', @@" + name
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		server := "IF(@@autocommit = 1, " + ident + "), NULL)"
		s.texts, s.ready = newTexts(MySQL, s.opts.prefix(), "CONVERT("+server+" USING utf8mb4) COLLATE utf8mb4_bin", server, false), true
	}
	return nil
}

// Caps implements driver.Store.
func (s *Store) Caps() driver.Caps {
	return driver.Caps{
		Engine: s.dialect.String(), Fencing: driver.Strict, Durability: driver.Durable, Grace: s.opts.Grace,
		Queue: true, Push: true, Contended: s.notice(), Linger: s.notice() == driver.NoticeAtOnce, Shared: true, Reentry: true, Hold: true, Listing: true,
		MinTTL: minTTL, MaxTTL: s.opts.MaxTTL, Assumes: s.assumes(),
	}
}

// assumes returns what failovers must be like. The store cannot see for sure how its
// database is replicated.
func (s *Store) assumes() string {
	const clocks = "Tokens keep increasing through a failover if the clock of the new server is not behind the old server's by more than the failover takes."
	if s.opts.Grace {
		return clocks
	}
	return "A grant survives a failover if the new server has every acknowledged commit: use synchronous replication, or Options.Grace.\n" +
		"Without Options.Grace, if the clock of the new server is ahead of the old server's, sessions end early by the difference, and two holders may overlap in time for that long.\n" + clocks
}

// Shard implements driver.Store: a database is one shard.
func (s *Store) Shard(string) string { return "0" }

// Close releases what the store has in the database handle: prepared statements and the
// connections on which claims wait. A store of Open or FromURL closes its handle too. Close the
// fencelock.Client first: sessions are not closed here.
func (s *Store) Close() error {
	s.waker.close()
	s.sweeper.close()
	s.mu.Lock()
	all := s.statements
	s.statements = map[string]*sql.Stmt{}
	s.mu.Unlock()
	for _, st := range all {
		_ = st.Close()
	}
	if s.closeDB {
		return s.db.Close()
	}
	return nil
}

// check refuses names that a column cannot have.
func (s *Store) check(name string) error {
	if strings.ContainsRune(name, 0) && s.dialect == PostgreSQL {
		return fmt.Errorf("sqlstore: the name %q holds a zero byte, which PostgreSQL cannot store: %w", name, driver.ErrRefused)
	}
	return nil
}
