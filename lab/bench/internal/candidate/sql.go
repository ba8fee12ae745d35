// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	_ "github.com/go-sql-driver/mysql" // the driver of MariaDB
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of PostgreSQL

	"github.com/fencelock/fencelock/store/sqlstore"
)

// FencelockPostgres, FencelockMariaDB and FencelockMySQL are fencelock on sqlstore.
var (
	FencelockPostgres = &Candidate{Name: "fencelock-postgres", Server: "postgres", Bare: "pg-advisory-lock", Settings: sqlSettings, Waits: true, Open: openSQLStores}
	FencelockMariaDB  = &Candidate{Name: "fencelock-mariadb", Server: "mariadb", Bare: "mariadb-get-lock", Settings: sqlSettings, Waits: true, Open: openSQLStores}
	FencelockMySQL    = &Candidate{Name: "fencelock-mysql", Server: "mysql", Bare: "mysql-get-lock", Settings: sqlSettings, Waits: true, Open: openSQLStores}
)

const sqlSettings = "defaults: TTL 15 s"

// AdvisoryLock, GetLock and GetLockMySQL are the locks that the databases have. They are in memory,
// hang on a connection and have no token. Statements are prepared: their best case.
var (
	AdvisoryLock = &Candidate{
		Name: "pg-advisory-lock", Server: "postgres", Settings: "pg_advisory_lock through pgx, prepared", Waits: true,
		Open: openNativeSQL("SELECT pg_advisory_lock(hashtextextended($1, 0))", "SELECT pg_advisory_unlock(hashtextextended($1, 0))"),
	}
	GetLock = &Candidate{
		Name: "mariadb-get-lock", Server: "mariadb", Settings: "GET_LOCK, prepared", Waits: true,
		Open: openNativeSQL("SELECT GET_LOCK(?, 60)", "SELECT RELEASE_LOCK(?)"),
	}
	GetLockMySQL = &Candidate{
		Name: "mysql-get-lock", Server: "mysql", Settings: "GET_LOCK, prepared", Waits: true,
		Open: openNativeSQL("SELECT GET_LOCK(SHA2(?, 224), 60)", "SELECT RELEASE_LOCK(SHA2(?, 224))"), // a name has 64 characters at most
	}
)

// openSQLStores gives each locker its own handle, as a process has.
var openSQLStores = each(func(ctx context.Context, addr string) (Locker, error) {
	store, err := sqlstore.FromURL(addr, nil)
	if err != nil {
		return nil, err
	}
	if err := store.Migrate(ctx); err != nil {
		_ = store.Close()
		return nil, err
	}
	return newOurs(store, func() { _ = store.Close() })
})

func openNativeSQL(lock, unlock string) func(context.Context, Place, int) ([]Locker, error) {
	return each(func(_ context.Context, addr string) (Locker, error) {
		db, err := openSQL(addr)
		return &nativeSQL{db: db, lock: lock, unlock: unlock, idle: make(chan *nativeConn, 128)}, err
	})
}

// openSQL makes a handle of the URL that target.Database has.
func openSQL(addr string) (*sql.DB, error) {
	u, err := url.Parse(addr)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "postgres" {
		return sql.Open("pgx", addr)
	}
	return sql.Open("mysql", fmt.Sprintf("%s@tcp(%s)%s", u.User.Username(), u.Host, u.Path))
}

// nativeSQL keeps connections with their statements prepared.
type nativeSQL struct {
	db           *sql.DB
	lock, unlock string
	idle         chan *nativeConn
}

type nativeConn struct {
	conn         *sql.Conn
	lock, unlock *sql.Stmt
}

func (s *nativeSQL) conn(ctx context.Context) (*nativeConn, error) {
	select {
	case c := <-s.idle:
		return c, nil
	default:
	}
	// Not the measurement's context: the connection and its statements outlive it.
	conn, err := s.db.Conn(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	c := &nativeConn{conn: conn}
	c.lock, err = conn.PrepareContext(ctx, s.lock)
	if err == nil {
		c.unlock, err = conn.PrepareContext(ctx, s.unlock)
	}
	return c, err
}

// Lock implements Locker, on a connection. A context that ends while it waits ends the connection.
func (s *nativeSQL) Lock(ctx context.Context, name string) (Held, error) {
	c, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	var got sql.NullString
	if err := c.lock.QueryRowContext(ctx, name).Scan(&got); err != nil {
		_ = c.conn.Close()
		return nil, err
	}
	return &nativeLock{s, c, name}, nil
}

type nativeLock struct {
	of   *nativeSQL
	on   *nativeConn
	name string
}

// Unlock implements Held.
func (l *nativeLock) Unlock(ctx context.Context) error {
	var given sql.NullString
	err := l.on.unlock.QueryRowContext(context.WithoutCancel(ctx), l.name).Scan(&given)
	select {
	case l.of.idle <- l.on:
	default:
		_ = l.on.conn.Close()
	}
	return err
}

// Close implements Locker.
func (s *nativeSQL) Close() { _ = s.db.Close() }
