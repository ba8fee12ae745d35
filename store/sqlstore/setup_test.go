// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// kind is a way to a database: which servers, and how to connect through a port.
type kind struct {
	name    string
	driver  string
	dialect sqlstore.Dialect
	start   func() (*servers.Server, error)
	source  func(port int) string
	opts    sqlstore.Options
}

// shared starts a server at the first use and keeps it until all tests are over.
func shared(start func() (*servers.Server, error)) func() (*servers.Server, error) {
	return sync.OnceValues(func() (*servers.Server, error) {
		s, err := start()
		if err == nil {
			running.Lock()
			running.servers = append(running.servers, s)
			running.Unlock()
		}
		return s, err
	})
}

var running struct {
	sync.Mutex
	servers []*servers.Server
}

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait more than they work: as many at a time as there are processors
	// would take minutes. A number that was asked for stays: in a fuzzing run it is the
	// number of processes.
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", "32")
	}
	code := m.Run()
	for i := len(running.servers) - 1; i >= 0; i-- {
		running.servers[i].Stop()
	}
	os.Exit(code)
}

func pgSource(port int) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
}

// mySource and mariaSource are as docs/sql.md wants them; isolation has two names.
func mySource(port int) string {
	return fmt.Sprintf("root@tcp(127.0.0.1:%d)/test?transaction_isolation=%%27READ-COMMITTED%%27&innodb_lock_wait_timeout=1", port)
}

func mariaSource(port int) string {
	return fmt.Sprintf("root@tcp(127.0.0.1:%d)/test?tx_isolation=%%27READ-COMMITTED%%27&innodb_lock_wait_timeout=1", port)
}

// plainSource leaves the isolation at REPEATABLE READ, the default of the servers.
func plainSource(port int) string { return fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", port) }

var (
	// Disks are slow here, and no test of these restarts the server.
	postgres = shared(func() (*servers.Server, error) {
		return servers.Postgres("fsync=off", "max_connections=400", "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.max=20000")
	})
	mariadb = shared(func() (*servers.Server, error) {
		return servers.MariaDB("innodb-flush-log-at-trx-commit=2", "max-connections=400")
	})
	mysql9 = shared(func() (*servers.Server, error) {
		return servers.MySQL("innodb-flush-log-at-trx-commit=2", "sync-binlog=0", "max-connections=400")
	})
	pgbouncer = shared(func() (*servers.Server, error) {
		s, err := postgres()
		if err != nil {
			return nil, err
		}
		return s.Pgbouncer()
	})

	onPostgres  = kind{name: "postgres", driver: "pgx", dialect: sqlstore.PostgreSQL, start: postgres, source: pgSource}
	onMariaDB   = kind{name: "mariadb", driver: "mysql", dialect: sqlstore.MySQL, start: mariadb, source: mariaSource}
	onMySQL     = kind{name: "mysql", driver: "mysql", dialect: sqlstore.MySQL, start: mysql9, source: mySource}
	onPgbouncer = kind{name: "pgbouncer", driver: "pgx", dialect: sqlstore.PostgreSQL, start: pgbouncer, source: pgSource}
)

// need skips a test if the programs of a server are missing, and says how to get them.
func need(t testing.TB, start func() (*servers.Server, error)) *servers.Server {
	t.Helper()
	s, err := start()
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	must.OK(t, err)
	return s
}

// connect opens a database handle.
func (k kind) connect(t testing.TB, port int) *sql.DB {
	t.Helper()
	db, err := sql.Open(k.driver, k.source(port))
	must.OK(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// spaces gives every test its own tables.
var spaces atomic.Int64

// space creates tables under a new prefix and returns options with that prefix.
func (k kind) space(t testing.TB, db *sql.DB) sqlstore.Options {
	t.Helper()
	opts := k.opts
	opts.Namespace = fmt.Sprintf("t%d", spaces.Add(1))
	must.OK(t, sqlstore.Migrate(context.Background(), db, &opts))
	return opts
}

// store returns a store that is closed when the test ends.
func (k kind) store(t testing.TB, db *sql.DB, opts *sqlstore.Options) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.New(db, opts)
	must.OK(t, err)
	sqlstore.RetryListening(s, time.Second) // a greeting that is late on a slow machine must not cost minutes
	t.Cleanup(func() { s.Close() })
	return s
}
