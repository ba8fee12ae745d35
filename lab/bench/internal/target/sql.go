// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"database/sql"
	"strings"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/child"
)

// Database is a running PostgreSQL, MariaDB or MySQL, with its data on disk as it comes.
type Database struct {
	*servers.Server
	uncounted
	url, program string
	counter      *sql.DB // reads the counters; nil if it counts nothing
	reads        float64 // statements that were ours
}

// StartPostgres starts a server. The caller stops it.
func StartPostgres(context.Context) (Server, error) { return startPostgres("max_connections=2000") }

// StartPostgresCounting starts a server that counts the statements of fencelock.
func StartPostgresCounting(ctx context.Context) (Server, error) {
	d, err := startPostgres("max_connections=2000", "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track_utility=off")
	if err != nil {
		return nil, err
	}
	d.counter, err = sql.Open("pgx", d.url)
	if err == nil {
		_, err = d.counter.ExecContext(ctx, "CREATE EXTENSION pg_stat_statements")
	}
	if err != nil {
		d.Stop()
		return nil, err
	}
	return d, nil
}

func startPostgres(settings ...string) (*Database, error) {
	if err := child.Unmoved("PostgreSQL"); err != nil {
		return nil, err
	}
	s, err := servers.Postgres(settings...)
	if err != nil {
		return nil, err
	}
	return &Database{Server: s, url: "postgres://postgres@" + s.Addr + "/postgres?sslmode=disable", program: "postgres"}, nil
}

// StartMariaDB starts a server. The caller stops it.
func StartMariaDB(context.Context) (Server, error) { return startMySQL("mariadbd", servers.MariaDB) }

// StartMySQL starts a server. The caller stops it.
func StartMySQL(context.Context) (Server, error) { return startMySQL("mysqld", servers.MySQL) }

// StartMariaDBCounting and StartMySQLCounting start servers whose statements are counted.
func StartMariaDBCounting(context.Context) (Server, error) {
	return startMySQLCounting("mariadbd", servers.MariaDB)
}

// StartMySQLCounting is StartMariaDBCounting for MySQL.
func StartMySQLCounting(context.Context) (Server, error) {
	return startMySQLCounting("mysqld", servers.MySQL)
}

func startMySQLCounting(program string, start func(...string) (*servers.Server, error)) (Server, error) {
	d, err := startMySQL(program, start)
	if err != nil {
		return nil, err
	}
	d.counter, err = sql.Open("mysql", "root@tcp("+d.Server.Addr+")/test")
	return d, err
}

func startMySQL(program string, start func(...string) (*servers.Server, error)) (*Database, error) {
	if err := child.Unmoved(map[string]string{"mariadbd": "MariaDB", "mysqld": "MySQL"}[program]); err != nil {
		return nil, err
	}
	s, err := start("max-connections=2000")
	if err != nil {
		return nil, err
	}
	return &Database{Server: s, url: "mysql://root@" + s.Addr + "/test", program: program}, nil
}

// Stop implements Server.
func (d *Database) Stop() {
	if d.counter != nil {
		_ = d.counter.Close()
	}
	d.Server.Stop()
}

// Statements is how many statements the server has executed: those of fencelock on
// PostgreSQL, all but these readings elsewhere. It is 0 for a server that was not started
// to count.
func (d *Database) Statements(ctx context.Context) (n float64, err error) {
	switch {
	case d.counter == nil:
		return 0, nil
	case d.program == "postgres":
		err = d.counter.QueryRowContext(ctx, "SELECT COALESCE(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '/* fencelock%' OR query LIKE 'SELECT pg_notify%'").Scan(&n)
		return n, err
	}
	var name string
	err = d.counter.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n)
	d.reads++
	return n - d.reads, err
}

// Addr implements Server: a URL.
func (d *Database) Addr() string { return d.url }

// Version implements Server.
func (d *Database) Version(context.Context) (string, error) {
	text, err := d.Server.Version()
	_, version, _ := strings.Cut(text, " ")
	return d.program + " " + strings.TrimSpace(version), err
}

// CPU implements Server: of the server and the processes that it has started. A process
// that has ended is not counted any more.
func (d *Database) CPU(context.Context) (float64, error) { return familyTime(d.PID()) }

// Memory implements Server: it is not measured.
func (d *Database) Memory(context.Context) (float64, error) { return 0, nil }
