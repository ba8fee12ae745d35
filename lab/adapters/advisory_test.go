// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore/pgadvisory"
	"github.com/golang-migrate/migrate/v4/database"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/pressly/goose/v3/lock"
)

// migrationTool takes its advisory lock as it does before it migrates.
type migrationTool struct {
	key pgadvisory.Key
	// lock waits for the lock.
	lock, unlock func(ctx context.Context) error
}

var migrationTools = map[string]func(t *testing.T, db *sql.DB) migrationTool{
	"golang-migrate": func(t *testing.T, db *sql.DB) migrationTool {
		driver, err := migratepgx.WithInstance(db, &migratepgx.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return migrationTool{
			pgadvisory.GolangMigrate("postgres", "public", migratepgx.DefaultMigrationsTable),
			func(context.Context) error { return driver.Lock() },
			func(context.Context) error { return driver.Unlock() },
		}
	},
	"goose": func(t *testing.T, db *sql.DB) migrationTool {
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 600)) // a try each second
		if err != nil {
			t.Fatal(err)
		}
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return migrationTool{
			pgadvisory.Goose(),
			func(ctx context.Context) error { return locker.SessionLock(ctx, conn) },
			func(ctx context.Context) error { return locker.SessionUnlock(ctx, conn) },
		}
	},
}

// TestMigrationToolsAreExcluded: the tools themselves take their locks, in both directions.
func TestMigrationToolsAreExcluded(t *testing.T) {
	server := servers.Test(t, func() (*servers.Server, error) { return servers.Postgres() })
	ours := openPostgres(t, postgresURL(server))
	for name, begin := range migrationTools {
		t.Run(name, func(t *testing.T) {
			tool := begin(t, openPostgres(t, postgresURL(server)+"&application_name="+name))
			got := make(chan error, 1)
			err := pgadvisory.Do(t.Context(), ours, tool.key, nil, func(ctx context.Context) error {
				go func() { got <- tool.lock(t.Context()) }()
				err := servers.Await("the tool has asked for its lock", func() bool {
					return exists(t, ours, name, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND query LIKE '%advisory_lock(%' AND (state = 'idle' OR wait_event_type = 'Lock')")
				})
				if exists(t, ours, name, "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE application_name = $1 AND locktype = 'advisory' AND granted") {
					t.Error("the tool took its lock beside us")
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := <-got; err != nil {
				t.Fatalf("the tool waited for us: %v", err)
			}
			if _, err := pgadvisory.TryLock(t.Context(), ours, tool.key, nil); !errors.Is(err, pgadvisory.ErrHeld) {
				t.Errorf("TryLock beside the tool: %v", err)
			}
			if err := tool.unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			held, err := pgadvisory.TryLock(t.Context(), ours, tool.key, nil)
			if err != nil {
				t.Fatalf("TryLock after the tool: %v", err)
			}
			if err := held.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func openPostgres(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// exists reports whether a query about an application counts anything.
func exists(t *testing.T, db *sql.DB, application, query string) bool {
	t.Helper()
	var n int
	if err := db.QueryRowContext(t.Context(), query, application).Scan(&n); err != nil {
		t.Error(err)
	}
	return n > 0
}

// TestAdvisoryKeysOfGolangMigrate: our key is the one that the library computes, whatever the names are.
func TestAdvisoryKeysOfGolangMigrate(t *testing.T) {
	for _, names := range [][3]string{{"app", "public", "schema_migrations"}, {"orders", "", "versions"}, {"日本", "public", "schema_migrations"}} {
		want, err := database.GenerateAdvisoryLockId(names[0], names[1], names[2])
		if err != nil {
			t.Fatal(err)
		}
		if got := pgadvisory.GolangMigrate(names[0], names[1], names[2]).String(); got != "("+want+")" {
			t.Errorf("the key of %q is %s, want (%s)", names, got, want)
		}
	}
}
