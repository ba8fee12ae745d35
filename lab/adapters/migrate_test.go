// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/fencelock/fencelock/adapters/migratelock"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/mysql"
	dt "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

var _ database.Driver = (*migratelock.Driver[database.Driver])(nil)

// steps take long enough for another process to begin.
var steps = fstest.MapFS{
	"1_a.up.sql": {Data: []byte("CREATE TABLE a (id int); DO SLEEP(0.5);")},
	"2_b.up.sql": {Data: []byte("CREATE TABLE b (id int); DO SLEEP(0.5);")},
}

func mariadbURL(s *servers.Server) string {
	return fmt.Sprintf("root@tcp(%s)/test?multiStatements=true", s.Addr)
}

// mariadbDriver is a driver that locks nothing, as those of other databases do.
func mariadbDriver(url string) (database.Driver, error) {
	db, err := sql.Open("mysql", url)
	if err != nil {
		return nil, err
	}
	return mysql.WithInstance(db, &mysql.Config{NoLock: true})
}

func init() {
	migrated := func(r *replica, driver database.Driver, up func(*migrate.Migrate) error) error {
		source, err := iofs.New(steps, ".")
		if err != nil {
			return err
		}
		m, err := migrate.NewWithInstance("iofs", source, "mysql", driver)
		if err != nil {
			return err
		}
		err = up(m)
		r.note("%v", err)
		return nil
	}
	roles["migrate driver"] = func(_ context.Context, r *replica) error {
		inner, err := mariadbDriver(r.extra)
		if err != nil {
			return err
		}
		client := r.client
		driver, err := migratelock.New(inner, client, "migrate/orders", database.ErrLocked, nil)
		if err != nil {
			return err
		}
		return migrated(r, driver, (*migrate.Migrate).Up)
	}
	roles["migrate run"] = func(ctx context.Context, r *replica) error {
		inner, err := mariadbDriver(r.extra)
		if err != nil {
			return err
		}
		return migrated(r, inner, func(m *migrate.Migrate) error {
			return migratelock.Run(ctx, r.client, "migrate/orders", m.GracefulStop, m.Up)
		})
	}
	roles["migrate bare"] = func(_ context.Context, r *replica) error {
		inner, err := mariadbDriver(r.extra)
		if err != nil {
			return err
		}
		return migrated(r, inner, (*migrate.Migrate).Up)
	}
}

// TestMigrateSuite: the suite that golang-migrate has for drivers.
func TestMigrateSuite(t *testing.T) {
	s := newSite(t)
	maria := servers.Test(t, func() (*servers.Server, error) { return servers.MariaDB() })
	inner, err := mariadbDriver(mariadbURL(maria))
	if err != nil {
		t.Fatal(err)
	}
	d, err := migratelock.New(inner, locksOn(t, s)(t), "migrate/orders", database.ErrLocked, nil)
	if err != nil {
		t.Fatal(err)
	}
	dt.Test(t, d, []byte("SELECT 1"))
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	proved(t, "migrate", 0)
}

// TestMigrateProcesses: of two processes that migrate at once, one migrates and the other
// finds nothing to do. Without the lock the second fails in the middle.
func TestMigrateProcesses(t *testing.T) {
	maria := servers.Test(t, func() (*servers.Server, error) { return servers.MariaDB() })
	db, err := sql.Open("mysql", mariadbURL(maria))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	measure := func(role string) map[string]int {
		if _, err := db.ExecContext(t.Context(), "DROP TABLE IF EXISTS a, b, schema_migrations"); err != nil {
			t.Fatal(err)
		}
		// The constructor of a driver creates the table of versions, before any lock.
		first, err := mariadbDriver(mariadbURL(maria))
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, r := range newSite(t).atOnce(role, mariadbURL(maria)) {
			got[r.what]++
		}
		return got
	}
	for _, role := range []string{"migrate driver", "migrate run"} {
		if got := measure(role); got["<nil>"] != 1 || got[migrate.ErrNoChange.Error()] != 1 {
			t.Errorf("%s: %v, want one to migrate and one to find nothing", role, got)
		}
	}
	proved(t, "migrate", 0)
	got := measure("migrate bare")
	if got["<nil>"]+got[migrate.ErrNoChange.Error()] < 2 {
		withoutAdapter(1)
	}
	t.Logf("without the lock: %v", got)
}
