// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestPoolOfOne: with one connection everything works: processes wait for it, and nothing keeps
// it while it needs another.
func TestPoolOfOne(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		setup := k.connect(t, server.Port)
		opts := k.space(t, setup)
		var all []*fencelock.Client
		for range 2 {
			db := k.connect(t, server.Port)
			db.SetMaxOpenConns(1)
			store := k.store(t, db, &opts)
			if _, err := store.Check(ctx); err != nil {
				t.Fatal(err)
			}
			locks, err := fencelock.New(store, nil)
			must.OK(t, err)
			all = append(all, locks)
		}
		var crowd sync.WaitGroup
		for i := range 8 {
			crowd.Go(func() {
				locks := all[i%2]
				for range 3 {
					l, err := locks.Mutex("x").Lock(ctx)
					if err == nil {
						_, err = locks.Inspect(ctx, "x")
						err = errors.Join(err, l.Unlock(ctx))
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		crowd.Wait()
		for _, locks := range all {
			if err := locks.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestStatementTimeout: a statement that the server cancels because it took too long has done
// nothing, and decides nothing about the session.
func TestStatementTimeout(t *testing.T) {
	for _, c := range []struct {
		kind
		limited func(port int) string
		code    string
	}{
		{onPostgres, func(port int) string { return pgSource(port) + "&statement_timeout=2000" }, "57014"},
		// Without innodb_lock_wait_timeout=1: a wait that ends by it is repeated, and no statement lasts longer.
		{onMariaDB, func(port int) string { return plainSource(port) + "?max_statement_time=2" }, "1969"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			server := need(t, c.start)
			db := c.connect(t, server.Port)
			opts := c.space(t, db)
			limited, err := sql.Open(c.driver, c.limited(server.Port))
			must.OK(t, err)
			t.Cleanup(func() { limited.Close() })
			ss, _, err := c.store(t, limited, &opts).Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 30 * time.Second})
			must.OK(t, err)
			_, err = ss.Attempt(ctx, plain(1, "x"))
			must.OK(t, err)
			_, err = ss.Withdraw(ctx, driver.Withdrawal{Name: "x", Seq: 1})
			must.OK(t, err)
			tx, err := db.BeginTx(ctx, nil)
			must.OK(t, err)
			_, err = tx.ExecContext(ctx, "SELECT 1 FROM "+opts.Prefix()+"lock FOR UPDATE")
			must.OK(t, err)
			bounded, end := context.WithTimeout(ctx, 20*time.Second)
			_, err = ss.Attempt(bounded, plain(2, "x"))
			end()
			if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), c.code) {
				t.Errorf("an attempt that takes too long: %v, want ErrUnavailable because of %s", err, c.code)
			}
			if _, err := ss.KeepAlive(ctx); err != nil {
				t.Errorf("a keep-alive while the row is locked: %v", err)
			}
			must.OK(t, tx.Rollback())
			if out, err := ss.Attempt(ctx, plain(2, "x")); err != nil || out.State != driver.Granted {
				t.Errorf("after it: %v, %v", out.State, err)
			}
		})
	}
}

// TestServerWithoutItsIdentity: some services leave out the functions by which a server says who
// it is, or forbid them. The store refuses such a
// server and names the function. The server here is PostgreSQL with functions that answer as
// those services do.
func TestServerWithoutItsIdentity(t *testing.T) {
	server := need(t, postgres)
	admin := onPostgres.connect(t, server.Port)
	must.OK(t, exec(admin, "CREATE SCHEMA aurora"))
	must.OK(t, exec(admin, `CREATE FUNCTION aurora.pg_current_wal_lsn() RETURNS pg_lsn LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'Function pg_current_wal_lsn() is currently not supported for Aurora' USING ERRCODE = '0A000'; END $$`))
	must.OK(t, exec(admin, "CREATE SCHEMA forbidding"))
	must.OK(t, exec(admin, "CREATE FUNCTION forbidding.pg_control_system() RETURNS TABLE (system_identifier bigint) LANGUAGE plpgsql AS $$ "+
		"BEGIN RAISE EXCEPTION 'permission denied for function pg_control_system' USING ERRCODE = '42501'; END $$"))
	for schema, function := range map[string]string{"aurora": "pg_current_wal_lsn", "forbidding": "pg_control_system"} {
		url := fmt.Sprintf("%s&search_path=%s,pg_catalog,public&migrate=true&namespace=%s&accept=fsync", pgSource(server.Port), schema, schema)
		_, err := sqlstore.Open(t.Context(), url, nil)
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "does not let the store use "+function) {
			t.Errorf("%s: got %v, want a refusal that names %s", schema, err, function)
		}
	}
}

// TestGaleraIsRefused: a node of a Galera cluster is found out by its own variables. GALERA names
// the library, libgalera_smm.so of the package galera-4.
func TestGaleraIsRefused(t *testing.T) {
	t.Parallel()
	library := os.Getenv("GALERA")
	if library == "" {
		t.Skip("GALERA does not name a libgalera_smm.so")
	}
	server := servers.Test(t, func() (*servers.Server, error) {
		port, err := servers.FreePort()
		if err != nil {
			return nil, err
		}
		return servers.MariaDB("wsrep-on=ON", "wsrep-provider="+library, "wsrep-cluster-address=gcomm://", "binlog-format=ROW",
			"innodb-autoinc-lock-mode=2", "wsrep-node-address=127.0.0.1", fmt.Sprintf("wsrep-provider-options=base_port=%d", port))
	})
	_, err := sqlstore.Open(t.Context(), fmt.Sprintf("mysql://root@127.0.0.1:%d/test?migrate=true", server.Port), nil)
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "Galera") || !strings.Contains(err.Error(), "accept=multi-primary") {
		t.Errorf("got %v, want a refusal that names Galera", err)
	}
}

// TestReadReplica: a store on a replica grants nothing and shows nothing that is old. One opened
// by URL says what to change; for a handle the database is one that works later, as a replica
// does that takes over.
func TestReadReplica(t *testing.T) {
	t.Parallel()
	primary := servers.Test(t, func() (*servers.Server, error) { return servers.Postgres("wal_level=replica", "max_wal_senders=4") })
	k := onPostgres
	db := k.connect(t, primary.Port)
	opts := k.space(t, db)
	ss, _, err := k.store(t, db, &opts).Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 30 * time.Second})
	must.OK(t, err)
	_, err = ss.Attempt(t.Context(), plain(1, "x"))
	must.OK(t, err)
	replica := servers.Test(t, func() (*servers.Server, error) { return primary.Replica(primary.Port) })
	url := fmt.Sprintf("%s&namespace=%s", pgSource(replica.Port), strings.TrimSuffix(opts.Prefix(), "_"))
	_, err = sqlstore.Open(t.Context(), url, nil)
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "target_session_attrs=read-write") {
		t.Errorf("opened by URL: got %v, want a refusal that names target_session_attrs", err)
	}
	direct := k.store(t, k.connect(t, replica.Port), &opts)
	_, _, err1 := direct.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 30 * time.Second})
	_, err2 := direct.Inspect(t.Context(), "x")
	for i, err := range []error{err1, err2} {
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("call %d on a handle: got %v, want ErrUnavailable", i, err)
		}
	}
}
