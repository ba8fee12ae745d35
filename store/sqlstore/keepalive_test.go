// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/measure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestKeepAliveIsOneStatement: a process with 1,000 leases has the server do one
// statement for each keep-alive, and nothing else.
func TestKeepAliveIsOneStatement(t *testing.T) {
	t.Parallel()
	const leases, keepAlives = 1000, 4
	server := need(t, onPostgres.start)
	admin := onPostgres.connect(t, server.Port)
	opts := onPostgres.space(t, admin)
	if _, err := admin.Exec("CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err != nil {
		t.Skipf("pg_stat_statements: %v; on Debian: apt-get install postgresql-15", err)
	}
	store := measure.NewCounter(onPostgres.store(t, onPostgres.connect(t, server.Port), &opts))
	c := client(t, store, 6*time.Second)
	for i := range leases {
		lock(t, c, fmt.Sprint("lease/", i))
	}
	// statements counts those on the tables of this test, by the server.
	statements := func() (n int64) {
		must.OK(t, admin.QueryRow("SELECT COALESCE(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query LIKE '%' || $1 || '%' AND query NOT LIKE '%pg_stat%'", opts.Prefix()).Scan(&n))
		return n
	}
	ctx, cancel := context.WithTimeout(ctxb, time.Minute)
	defer cancel()
	must.OK(t, store.Await(ctx, 1))
	before, calls := statements(), store.Renewals()
	must.OK(t, store.Await(ctx, keepAlives))
	after, now := statements(), store.Renewals()
	// One may be under way: done at the server, and not counted here yet. On a busy machine some are repeated.
	if more := after - before - int64(now-calls); now-calls < keepAlives || more < 0 || more > keepAlives {
		t.Errorf("%d leases: %d keep-alives were %d statements, want about as many", leases, now-calls, after-before)
	}
}

// TestEndsNeverGoBack: a keep-alive that began before another, and is done after it, does
// not take back what the other has given; nor does an Open that is late.
func TestEndsNeverGoBack(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		s := k.store(t, db, &opts)
		req := driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 10 * time.Second}
		ss, _, err := s.Open(ctxb, req)
		must.OK(t, err)
		out, err := ss.Attempt(ctxb, plain(1, "x"))
		must.OK(t, err)
		ends := func() (at int64) {
			must.OK(t, db.QueryRow("SELECT ends FROM "+opts.Prefix()+"session").Scan(&at))
			return at
		}
		keepAlive := func() error { _, err := ss.KeepAlive(ctxb); return err }
		for _, late := range []struct {
			what string
			do   func() error
		}{
			{"keep-alive", keepAlive},
			{"Open", func() error { _, _, err := s.Open(ctxb, req); return err }},
			{"Break", func() error { _, err := s.Break(ctxb, "x", out.Token); return err }},
			{"keep-alive with a broken claim", keepAlive},
		} {
			// Another one, whose statement began later by the server's clock.
			must.OK(t, exec(db, "UPDATE "+opts.Prefix()+"session SET ends = ends + 5000000"))
			before := ends()
			must.OK(t, late.do())
			if after := ends(); after < before {
				t.Errorf("%s: the session ends %v earlier than before", late.what, time.Duration(before-after)*time.Microsecond)
			}
		}
	})
}

// TestKeepAliveWithoutPermission: a keep-alive that is refused because of a password or a
// permission decides nothing about the session: leases go on until the deadline.
func TestKeepAliveWithoutPermission(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		admin := k.connect(t, server.Port)
		unique := fmt.Sprintf("t%d", spaces.Add(1))
		opts, role := sqlstore.Options{Namespace: unique + ".locks"}, unique+"_role"
		must.OK(t, exec(admin, "CREATE SCHEMA "+unique)) // in MariaDB's schema test every user has all rights
		must.OK(t, sqlstore.Migrate(ctxb, admin, &opts))
		from := k.source
		k.source = func(port int) string {
			return strings.Replace(strings.Replace(from(port), "postgres@", role+"@", 1), "root@", role+"@", 1)
		}
		name, create, drop := role, "CREATE ROLE "+role+" LOGIN", "ALTER ROLE "+role+" NOLOGIN"
		if k.dialect == sqlstore.MySQL {
			name = "'" + role + "'@'127.0.0.1'"
			create, drop = "CREATE USER "+name, "DROP USER "+name
		}
		must.OK(t, exec(admin, create))
		db := k.connect(t, server.Port)
		db.SetMaxIdleConns(0) // each statement logs in
		s := k.store(t, db, &opts)
		grant := func() {
			if k.dialect == sqlstore.MySQL { // it connects to this schema
				must.OK(t, exec(admin, "GRANT SELECT ON test.* TO "+name))
			}
			for statement := range strings.SplitSeq(strings.TrimSpace(s.Grants(name)), ";") {
				if statement != "" {
					must.OK(t, exec(admin, statement))
				}
			}
		}
		grant()
		ss, _, err := s.Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute})
		must.OK(t, err)
		keepAlive := func(what string, fails bool) {
			t.Helper()
			_, err := ss.KeepAlive(ctxb)
			decided := errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrReset) || errors.Is(err, driver.ErrRefused)
			if (err != nil) != fails || decided {
				t.Errorf("%s: %v; want an error that ends nothing: %t", what, err, fails)
			}
		}
		keepAlive("with all permissions", false)
		must.OK(t, exec(admin, "REVOKE UPDATE ON "+opts.Prefix()+"session FROM "+name))
		keepAlive("without the permission to update", true)
		grant()
		keepAlive("with it again", false)
		must.OK(t, exec(admin, drop))
		keepAlive("without a login", true)
	})
}
