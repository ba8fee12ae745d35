// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/gooselock"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"
)

var (
	_ lock.Locker        = (*gooselock.Locker)(nil)
	_ lock.SessionLocker = (*gooselock.Locker)(nil)
)

// slowMigrations take long enough for another process to begin.
var slowMigrations = fstest.MapFS{
	"1_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a (id int);\nSELECT pg_sleep(0.5);\n")},
	"2_b.sql": {Data: []byte("-- +goose Up\nCREATE TABLE b (id int);\nSELECT pg_sleep(0.5);\n")},
}

func postgresURL(s *servers.Server) string {
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", s.Addr)
}

func gooseProvider(db *sql.DB, options ...goose.ProviderOption) (*goose.Provider, error) {
	return goose.NewProvider(goose.DialectPostgres, db, slowMigrations, options...)
}

func init() {
	up := func(ctx context.Context, r *replica, options ...goose.ProviderOption) error {
		db, err := sql.Open("pgx", r.extra)
		if err != nil {
			return err
		}
		defer db.Close()
		p, err := gooseProvider(db, options...)
		if err != nil {
			return err
		}
		done, err := p.Up(ctx)
		r.note("applied %d, failed %v", len(done), err != nil)
		return nil
	}
	roles["goose"] = func(ctx context.Context, r *replica) error {
		return up(ctx, r, goose.WithLocker(gooselock.New(r.client, "migrate", nil)))
	}
	roles["goose session"] = func(ctx context.Context, r *replica) error {
		return up(ctx, r, goose.WithSessionLocker(gooselock.New(r.client, "migrate", nil)))
	}
	roles["goose do"] = func(ctx context.Context, r *replica) error {
		db, err := sql.Open("pgx", r.extra)
		if err != nil {
			return err
		}
		defer db.Close()
		provider, err := gooseProvider(db)
		if err != nil {
			return err
		}
		err = gooseUp(ctx, r.client, provider)
		r.note("failed %v", err != nil)
		return nil
	}
	roles["goose bare"] = func(ctx context.Context, r *replica) error { return up(ctx, r) }
}

// gooseUp is what the page of gooselock shows first.
func gooseUp(ctx context.Context, client *fencelock.Client, provider *goose.Provider) error {
	return client.Do(ctx, "migrate/orders", func(ctx context.Context, _ *fencelock.Lease) error {
		_, err := provider.Up(ctx)
		return err
	})
}

// locksOn returns clients as processes have them, each with its own session.
func locksOn(t *testing.T, s *site) func(*testing.T) *fencelock.Client {
	store, err := redisstore.Open(t.Context(), "redis://"+s.redis.Addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return func(t *testing.T) *fencelock.Client {
		c, err := fencelock.New(store, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		return c
	}
}

// TestGooseSuite: the suite that goose has for locks.
func TestGooseSuite(t *testing.T) {
	s := newSite(t)
	client := locksOn(t, s)
	pg := servers.Test(t, func() (*servers.Server, error) { return servers.Postgres() })
	db, err := sql.Open("pgx", postgresURL(pg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
		p, err := gooseProvider(db, goose.WithLocker(gooselock.New(client(t), "migrate", nil)))
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
	locktesting.TestConcurrentLocking(t, db, func(t *testing.T) lock.Locker {
		return gooselock.New(client(t), "concurrent", nil)
	}, time.Second)
	proved(t, "goose", 0)
}

// TestGooseProcesses: of two processes that migrate at once, one applies everything and the
// other finds nothing to do. Without the lock both begin.
func TestGooseProcesses(t *testing.T) {
	pg := servers.Test(t, func() (*servers.Server, error) { return servers.Postgres() })
	db, err := sql.Open("pgx", postgresURL(pg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	measure := func(role string) []ran {
		if _, err := db.ExecContext(t.Context(), "DROP TABLE IF EXISTS a, b, goose_db_version"); err != nil {
			t.Fatal(err)
		}
		return newSite(t).atOnce(role, postgresURL(pg))
	}
	for _, role := range []string{"goose", "goose session"} {
		got := map[string]int{}
		for _, r := range measure(role) {
			got[r.what]++
		}
		if got["applied 2, failed false"] != 1 || got["applied 0, failed false"] != 1 {
			t.Errorf("%s: %v, want one process to apply both migrations", role, got)
		}
	}
	for _, r := range measure("goose do") {
		if r.what != "failed false" {
			t.Errorf("goose do: %v", r)
		}
	}
	proved(t, "goose", 0)
	for _, r := range measure("goose bare") {
		if r.what == "applied 0, failed true" {
			withoutAdapter(1)
		}
	}
}
