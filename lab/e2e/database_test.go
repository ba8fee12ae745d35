// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/sqlfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/e2e/internal/gated"
)

// database is a running server, shared by all tests.
type database struct {
	name    string
	dialect sqlfence.Dialect
	server  *servers.Server
	db      *sql.DB // every statement is a step
	connect func(port int, d *fencetest.Dialer) driver.Connector
	table   *sqlfence.Table
	row     *sqlfence.Row
	rows    *atomic.Int64 // the last row that was made; no two ever have the same key
	other   *database     // the same server, as another process has it
}

const valuesTable = "CREATE TABLE guarded (id BIGINT PRIMARY KEY, v VARCHAR(100) NOT NULL, fence BIGINT, holder VARCHAR(100))"

var (
	postgres = sync.OnceValues(func() (*database, error) { return begin("postgres", sqlfence.PostgreSQL, servers.Postgres, postgresAt) })
	mariadb  = sync.OnceValues(func() (*database, error) { return begin("mariadb", sqlfence.MySQL, servers.MariaDB, mariadbAt) })
	mysqld   = sync.OnceValues(func() (*database, error) { return begin("mysql", sqlfence.MySQL, servers.MySQL, mariadbAt) })
	started  []*database
)

func TestMain(m *testing.M) {
	code := m.Run()
	for _, e := range started {
		if e.db != nil {
			_, _ = e.db.Close(), e.other.db.Close()
		}
		e.server.Stop()
	}
	os.Exit(code)
}

// each runs a test on every database.
func each(t *testing.T, f func(t *testing.T, e *database)) {
	all := map[string]func() (*database, error){"postgres": postgres, "mariadb": mariadb}
	if os.Getenv("MYSQLD") != "" { // few systems have it beside MariaDB
		all["mysql"] = mysqld
	}
	for name, get := range all {
		t.Run(name, func(t *testing.T) {
			f(t, need(t, get))
		})
	}
}

// need returns a running database, or skips the test if it is not installed.
func need(t *testing.T, get func() (*database, error)) *database {
	t.Helper()
	e, err := get()
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	must.OK(t, err)
	return e
}

func begin(name string, d sqlfence.Dialect, start func(settings ...string) (*servers.Server, error), connect func(int, *fencetest.Dialer) driver.Connector) (*database, error) {
	s, err := start()
	if err != nil {
		return nil, err
	}
	e := &database{name: name, dialect: d, server: s, connect: connect, rows: new(atomic.Int64)}
	started = append(started, e)
	other := *e
	e.other = &other
	if err := errors.Join(e.open(), other.open()); err != nil {
		return nil, err
	}
	for _, statement := range []string{valuesTable, e.table.Schema(), e.table.Schema()} {
		if _, err := e.db.Exec(statement); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// open makes what every process has: a database handle and guards.
func (e *database) open() (err error) {
	e.db = sql.OpenDB(gated.Wrap(e.connect(e.server.Port, &fencetest.Dialer{})))
	e.table, err = sqlfence.NewTable(e.dialect, nil)
	if err != nil {
		return err
	}
	e.row, err = sqlfence.NewRow(e.dialect, &sqlfence.RowOptions{Table: "guarded", Key: "id", Holder: "holder"})
	return err
}

// Neither driver may prepare statements here: a statement is then one round
// trip, and the first reply after it is the reply to it.

func postgresAt(port int, d *fencetest.Dialer) driver.Connector {
	cfg, err := pgx.ParseConfig(fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable&default_query_exec_mode=exec", port))
	if err != nil {
		panic(err)
	}
	cfg.DialFunc = d.DialContext
	return stdlib.GetConnector(*cfg)
}

func mariadbAt(port int, d *fencetest.Dialer) driver.Connector {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName, cfg.InterpolateParams = "root", "tcp", fmt.Sprintf("127.0.0.1:%d", port), "test", true
	cfg.DialFunc = d.DialContext
	cfg.Logger = &mysql.NopLogger{} // connections are meant to break here
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		panic(err)
	}
	return c
}

// restart kills the server and waits until new connections are answered.
func (e *database) restart(ctx context.Context) error {
	if err := e.server.Restart(); err != nil {
		return err
	}
	for _, db := range []*sql.DB{e.db, e.other.db} {
		db.SetMaxIdleConns(0) // the old connections are dead
		db.SetMaxIdleConns(2)
		if err := db.PingContext(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lossy calls f with a database that loses a reply when the dialer is set to.
// It is a new one each time: a driver whose connection broke may still be
// clearing up, and its connections would be the ones that lose.
func (e *database) lossy(f func(db *sql.DB, d *fencetest.Dialer) error) error {
	d := &fencetest.Dialer{}
	db := sql.OpenDB(e.connect(e.server.Port, d))
	defer db.Close()
	return f(db, d)
}

var placeholder = regexp.MustCompile(`\$\d`)

// sql writes a statement in the dialect. Placeholders must come in order.
func (e *database) sql(text string) string {
	if e.dialect == sqlfence.MySQL {
		return placeholder.ReplaceAllString(text, "?")
	}
	return text
}

// insert makes a fresh row and returns its key.
func (e *database) insert(ctx context.Context) (int64, error) {
	id := e.rows.Add(1)
	_, err := e.db.ExecContext(ctx, e.sql("INSERT INTO guarded (id, v) VALUES ($1, '')"), id)
	return id, err
}

// get and set are what a program does without a guard.
func (e *database) get(ctx context.Context, q sqlfence.Querier, id int64) (v string, err error) {
	err = q.QueryRowContext(ctx, e.sql("SELECT v FROM guarded WHERE id = $1"), id).Scan(&v)
	return v, err
}

func (e *database) set(ctx context.Context, q sqlfence.Querier, id int64, v string) error {
	_, err := q.ExecContext(ctx, e.sql("UPDATE guarded SET v = $1 WHERE id = $2"), v, id)
	return err
}
