// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// database is one server with the tables of a store in it.
type database struct {
	*server.Wrapped
	db     *sql.DB
	driver string
}

// nowIn is how a database is asked for the time of day, in seconds.
var nowIn = map[string]string{
	"pgx":   "SELECT extract(epoch FROM clock_timestamp())::float8",
	"mysql": "SELECT UNIX_TIMESTAMP(SYSDATE(6)) + 0e0",
}

// Now returns the time of day of the server.
func (d *database) Now(ctx context.Context) (time.Time, error) {
	var seconds float64
	err := d.db.QueryRowContext(ctx, nowIn[d.driver]).Scan(&seconds)
	return time.UnixMicro(int64(seconds * 1e6)), err
}

// newDatabase creates the tables. Flush empties them.
func newDatabase(s *servers.Server, driver, dsn string, opts *sqlstore.Options, w fault.Wants) (*database, error) {
	d := &database{Wrapped: server.Wrap(s), driver: driver}
	if w.Clock {
		if err := d.WithClock(); err != nil {
			s.Stop()
			return nil, err
		}
	}
	var err error
	d.db, err = sql.Open(driver, dsn)
	if err != nil {
		s.Stop()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	d.Harm = d.harm
	if err := sqlstore.Migrate(ctx, d.db, opts); err != nil {
		d.Stop()
		return nil, err
	}
	return d, nil
}

func (d *database) harm(ctx context.Context, v fault.Verb) error {
	switch v {
	case fault.Flush:
		var err error
		for _, table := range []string{"incarnation", "session", "lock"} {
			_, e := d.db.ExecContext(ctx, "DELETE FROM "+"fencelock_"+table)
			err = errors.Join(err, e)
		}
		return err
	case fault.CutPush:
		_, err := d.db.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query ILIKE 'listen%'")
		return err
	}
	return fmt.Errorf("a database cannot be harmed by %q", v)
}

// Stop implements server.Server.
func (d *database) Stop() {
	if d.db != nil {
		_ = d.db.Close()
	}
	d.Wrapped.Stop()
}

// lacksSQL are the faults that are of other deployments.
var lacksSQL = map[fault.Verb]string{
	fault.Wipe: "a database without its data has no tables; flushall empties them",
}

// mariadb is one server, with grace. It does not notify waiters of a grant: they wait for named locks, or poll.
var mariadb = Deployment{Name: "mariadb", Lock: "mariadb", SurvivesDataLoss: true, Fair: true, Quiet: 1, start: startMariaDB,
	Shape: fault.Shape{Servers: 1}, Can: []fault.Verb{fault.Flush, fault.Clock, fault.ClockBack, fault.ClockRate}, Lacks: lacksMaria()}

func lacksMaria() map[fault.Verb]string {
	l := maps.Clone(lacksSQL)
	l[fault.CutPush] = "the server does not notify waiters; they wait for named locks, or poll"
	return l
}

// mysql is the same on MySQL, where MYSQLD names it.
var mysql = Deployment{Name: "mysql", Lock: "mysql", SurvivesDataLoss: true, Fair: true, Quiet: 1, start: startMySQL,
	Shape: mariadb.Shape, Can: mariadb.Can, Lacks: mariadb.Lacks}

func startMariaDB(ttl time.Duration, w fault.Wants) (*Rig, error) {
	return startMaria(servers.MariaDB, ttl, w)
}

func startMySQL(ttl time.Duration, w fault.Wants) (*Rig, error) {
	return startMaria(servers.MySQL, ttl, w)
}

func startMaria(start func(...string) (*servers.Server, error), ttl time.Duration, w fault.Wants) (*Rig, error) {
	s, err := start()
	if err != nil {
		return nil, err
	}
	d, err := newDatabase(s, "mysql", fmt.Sprintf("root@tcp(%s)/test", s.Addr), &sqlstore.Options{MaxTTL: ttl, Grace: true}, w)
	if err != nil {
		return nil, err
	}
	return &Rig{Servers: []server.Server{d}, Addrs: []string{d.Addr}}, nil
}

// port is the port of an address of ours.
func port(addr string) int {
	_, text, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(text)
	return n
}
