// SPDX-License-Identifier: Apache-2.0

// Command sqlfigures measures what the documents say of sqlstore, beside the locks that
// the databases have themselves, on servers that it starts and stops. It prints each as
// "figure NAME VALUE GOAL", and fails if one cannot be measured, not if one misses its
// goal.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
)

const (
	rounds  = 3
	each    = 600 * time.Millisecond
	workers = 16
)

// engine is a server and its own lock.
type engine struct {
	short  string // in the names of figures
	driver string
	native nativeLock
	start  func() (*servers.Server, error)
	source func(port int) string
	// statements counts those of ours that the server has done so far.
	statements func(db *sql.DB) (int64, error)
}

var engines = []engine{
	{
		short: "pg", driver: "pgx", native: advisory,
		start: func() (*servers.Server, error) {
			return servers.Postgres("shared_preload_libraries=pg_stat_statements", "max_connections=200")
		},
		source: func(port int) string {
			return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
		},
		statements: func(db *sql.DB) (n int64, err error) {
			if _, err = db.Exec("CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err == nil {
				err = db.QueryRow("SELECT COALESCE(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query LIKE '/* fencelock%' OR query LIKE 'SELECT pg_notify%'").Scan(&n)
			}
			return n, err
		},
	},
	{
		short: "mariadb", driver: "mysql", native: getLock,
		start:  func() (*servers.Server, error) { return servers.MariaDB("max-connections=200") },
		source: func(port int) string { return fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", port) },
		statements: func(db *sql.DB) (n int64, err error) {
			var name string
			// Both ways of sending a statement are counted here; this one too, so
			// the difference of two calls has one more.
			err = db.QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n)
			return n, err
		},
	},
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "sqlfigures:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	most := 0.0
	for _, e := range engines {
		server, err := e.start()
		if err != nil {
			return err
		}
		perKeepAlive, err := e.measure(ctx, server)
		server.Stop()
		if err != nil {
			return fmt.Errorf("%s: %w", e.short, err)
		}
		most = max(most, perKeepAlive)
	}
	figure("sql-keepalive-statements", most, "=1")
	return nil
}

func figure(name string, value float64, goal string) {
	fmt.Printf("figure %s %.3g %s\n", name, value, goal)
}

// measure prints the figures of one engine, and returns how many statements a
// keep-alive of many leases is.
func (e engine) measure(ctx context.Context, server *servers.Server) (float64, error) {
	p := &place{engine: e, port: server.Port}
	defer p.close()
	perKeepAlive, err := p.keepAlives(ctx, 1000)
	if err != nil {
		return 0, err
	}
	fmt.Printf("%s: %.3g statements per keep-alive, 1000 leases\n", e.short, perKeepAlive)
	goal := map[string]string{"pg": "pg-contended-vs-advisory", "mariadb": "mariadb-contended-vs-getlock"}[e.short]
	plain := map[string]string{"pg": "pg-uncontended-vs-advisory", "mariadb": "mariadb-uncontended-vs-getlock"}[e.short]
	// 16 goroutines in one process, in 4 and in 16: the first is how an application
	// uses it, the last is all hand-over between processes.
	for _, processes := range []int{4, 1, workers} {
		ratio, err := p.contended(ctx, processes)
		if err != nil {
			return 0, err
		}
		if processes == 4 {
			figure(goal, ratio, ">=0.9")
		} else {
			figure(fmt.Sprintf("%s-%d", goal, processes), ratio, ">=0.9")
		}
	}
	ratio, err := p.uncontended(ctx)
	if err != nil {
		return 0, err
	}
	figure(plain, ratio, "-")
	if ratio, err = p.commits(ctx); err != nil {
		return 0, err
	}
	figure(e.short+"-uncontended-vs-two-commits", ratio, "-")
	return perKeepAlive, nil
}
