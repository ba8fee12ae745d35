// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
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

// TestMigrateTogether: all processes may do it at start, at the same time.
func TestMigrateTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		opts := sqlstore.Options{Namespace: fmt.Sprintf("t%d", spaces.Add(1))}
		var wg sync.WaitGroup
		for range 8 {
			db := k.connect(t, server.Port)
			wg.Go(func() {
				if err := sqlstore.Migrate(ctxb, db, &opts); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

// TestMissingTables: one error, and one finding, say what to do.
func TestMissingTables(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		s := k.store(t, k.connect(t, server.Port), &sqlstore.Options{Namespace: "nowhere"})
		_, err := s.Inspect(ctxb, "x")
		if !errors.Is(err, sqlstore.ErrNoTables) || !strings.Contains(err.Error(), "migrate=true") || strings.Contains(err.Error(), "memory") {
			t.Errorf("got %v, want an error that names the parameter migrate", err)
		}
		findings, err := s.Check(ctxb)
		must.OK(t, err)
		n := 0
		for _, f := range findings {
			if f.Code == "tables" && strings.Contains(f.Fix, "migrate=true") && strings.Contains(f.Reason, "incarnation, session, lock") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("Check found %v, want the tables missing, once", findings)
		}
	})
}

// TestGrantsAreEnough: a role with what Grants prints, and nothing else, can keep locks,
// in a schema (a database of MariaDB) that is not its own.
func TestGrantsAreEnough(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		admin := k.connect(t, server.Port)
		unique := fmt.Sprintf("t%d", spaces.Add(1))
		opts := sqlstore.Options{Namespace: unique + ".locks"}
		must.OK(t, exec(admin, "CREATE SCHEMA "+unique))
		must.OK(t, sqlstore.Migrate(ctxb, admin, &opts))
		role, create, source := unique+"_role", "CREATE ROLE %s LOGIN", strings.Replace(k.source(server.Port), "postgres@", unique+"_role@", 1)
		if k.dialect == sqlstore.MySQL {
			role, create = "'"+role+"'@'127.0.0.1'", "CREATE USER %s"
			// It connects to the database of the tables: MySQL, unlike MariaDB, lets no role into test without a grant.
			source = strings.Replace(strings.Replace(source, "root@", unique+"_role@", 1), "/test?", "/"+unique+"?", 1)
		}
		must.OK(t, exec(admin, fmt.Sprintf(create, role)))
		db, err := sql.Open(k.driver, source)
		must.OK(t, err)
		t.Cleanup(func() { db.Close() })
		s := k.store(t, db, &opts)
		if _, err := s.Inspect(ctxb, "x"); err == nil || !strings.Contains(err.Error(), "GRANT SELECT") {
			t.Errorf("without permissions: %v, want an error with the statements that grant them", err)
		}
		for statement := range strings.SplitSeq(strings.TrimSpace(s.Grants(role)), ";") {
			if statement != "" {
				must.OK(t, exec(admin, statement))
			}
		}
		use(t, s)
		findings, err := s.Check(ctxb)
		must.OK(t, err)
		if has(findings, "permissions") || has(findings, "tables") {
			t.Errorf("Check found %v", findings)
		}
	})
}

// TestRoleWithoutSetConfig: a lock could be taken, but neither waited for nor unlocked before the next keep-alive. Check finds it, and
// the error of the unlock does not send the operator to the tables.
func TestRoleWithoutSetConfig(t *testing.T) {
	t.Parallel()
	port := need(t, onPostgres.start).Port
	must.OK(t, exec(onPostgres.connect(t, port), "CREATE DATABASE hardened"))
	in := func(role string) *sql.DB {
		db, err := sql.Open(onPostgres.driver, strings.NewReplacer("/postgres?", "/hardened?", "postgres@", role+"@").Replace(pgSource(port)))
		must.OK(t, err)
		t.Cleanup(func() { db.Close() })
		return db
	}
	admin := in("postgres")
	opts := onPostgres.space(t, admin)
	s := onPostgres.store(t, in("hardened"), &opts)
	must.OK(t, exec(admin, "CREATE ROLE hardened LOGIN; "+s.Grants("hardened")))
	must.OK(t, exec(admin, "REVOKE EXECUTE ON FUNCTION set_config FROM PUBLIC"))
	if findings, err := s.Check(ctxb); err != nil || !has(findings, "permissions") {
		t.Errorf("Check found %v, %v", findings, err)
	}
	ss := open(t, s)
	attempt(t, ss, plain(1, "x"), driver.Granted)
	_, err := ss.Withdraw(ctxb, driver.Withdrawal{Seq: 1, Name: "x"})
	if err == nil || !strings.Contains(err.Error(), "GRANT EXECUTE ON FUNCTION set_config") || strings.Contains(err.Error(), "GRANT SELECT") {
		t.Errorf("the unlock: %v", err)
	}
	must.OK(t, exec(admin, "GRANT EXECUTE ON FUNCTION set_config TO hardened"))
	if findings, err := s.Check(ctxb); err != nil || has(findings, "permissions") {
		t.Errorf("with the permission Check found %v, %v", findings, err)
	}
}

// use does a bit of everything.
func use(t *testing.T, s *sqlstore.Store) {
	c := client(t, s, 10*time.Second)
	l := lock(t, c, "x")
	sem, err := c.Semaphore("s", 2).Acquire(ctxb, 1)
	must.OK(t, err)
	n := 0
	for _, err := range c.List(ctxb, "") {
		must.OK(t, err)
		n++
	}
	if n != 2 {
		t.Errorf("%d locks are listed, want 2", n)
	}
	must.OK(t, sem.Unlock(ctxb))
	must.OK(t, l.Unlock(ctxb))
	must.OK(t, sqlstore.Sweep(ctxb, s))
}

func exec(db *sql.DB, text string) error {
	ctx, cancel := context.WithTimeout(ctxb, time.Minute) // another statement may have locked the table
	defer cancel()
	_, err := db.ExecContext(ctx, text)
	return err
}

// TestCheckFindsASloppyServer: the servers of these tests do not wait for the disk.
func TestCheckFindsASloppyServer(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		findings, err := k.store(t, db, &opts).Check(ctxb)
		must.OK(t, err)
		// MySQL writes a binary log unless it is asked not to.
		want := map[string][]string{
			"postgres": {"danger fsync"}, "mariadb": {"danger flush-log"},
			"mysql": {"danger flush-log", "note replicas-without-grace", "warning sync-binlog"},
		}[k.name]
		var got []string
		for _, f := range findings {
			got = append(got, f.Severity.String()+" "+f.Code)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestCheckFindsRepeatableRead: a handle whose statements lock what they read is found; one
// that Open made is not.
func TestCheckFindsRepeatableRead(t *testing.T) {
	for _, k := range []kind{onMariaDB, onMySQL} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			server := need(t, k.start)
			k.source = plainSource
			db := k.connect(t, server.Port)
			opts := k.space(t, db)
			findings, err := k.store(t, db, &opts).Check(ctxb)
			must.OK(t, err)
			if !has(findings, "isolation") {
				t.Errorf("got %v, want the isolation", findings)
			}
			s, err := sqlstore.FromURL("mysql://root@"+server.Addr+"/test", &opts)
			must.OK(t, err)
			t.Cleanup(func() { s.Close() })
			if findings, err = s.Check(ctxb); err != nil || has(findings, "isolation") {
				t.Errorf("after Open: %v, %v, want nothing about the isolation", findings, err)
			}
		})
	}
}

// TestRecordSurvivesTheHandoff: the fast path moves it from the queue by SQL.
func TestRecordSurvivesTheHandoff(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		s := k.store(t, db, &opts)
		record := driver.Record{Owner: "ann@host:1", Reason: "tab\t \"quotes\" it's \\ back 100% <b> zero\x00 日本 🔒\n", Labels: map[string]string{"": "x", "k": "[0].s"}}
		var sessions []driver.Session
		for range 2 {
			ss, _, err := s.Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute})
			must.OK(t, err)
			sessions = append(sessions, ss)
			_, err = ss.Attempt(ctxb, &driver.Claim{Seq: 1, Name: "x", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &record}})
			must.OK(t, err)
		}
		_, err := sessions[0].Withdraw(ctxb, driver.Withdrawal{Seq: 1, Name: "x"})
		must.OK(t, err)
		st, err := s.Inspect(ctxb, "x")
		must.OK(t, err)
		if len(st.Holders) != 1 || !reflect.DeepEqual(st.Holders[0].Record, record) {
			t.Errorf("got holders %+v, want one with the record\n%+v", st.Holders, record)
		}
	})
}

// TestClockSetBackBesideARead: a session that had ended when a lock was read, and has not
// when it is to be removed, keeps its locks.
func TestClockSetBackBesideARead(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		s := k.store(t, db, &opts)
		lock(t, client(t, s, 30*time.Second), "x")
		for ahead, want := range map[time.Duration]bool{0: true, time.Hour: false} {
			if sure, err := sqlstore.EndSessionsTooEarly(ctxb, s, "x", ahead); err != nil || sure != want {
				t.Errorf("with a clock set back by %v: what was read may be used is %t, %v; want %t", ahead, sure, err, want)
			}
		}
	})
}

// TestSplitReads: behind a proxy that sends reads to a replica, what is written is not what
// is read. The error says so, and comes before the context ends.
func TestSplitReads(t *testing.T) {
	t.Parallel()
	db := onPostgres.connect(t, need(t, postgres).Port)
	opts := onPostgres.space(t, db)
	s := onPostgres.store(t, db, &opts)
	must.OK(t, visit(s))
	// It reads the tables of another server, and nothing that is written shows there.
	must.OK(t, exec(db, "UPDATE "+opts.Prefix()+"incarnation SET identity = 'another server'"))
	must.OK(t, exec(db, "CREATE RULE "+opts.Prefix()+"split AS ON UPDATE TO "+opts.Prefix()+"incarnation DO INSTEAD NOTHING"))
	ctx, cancel := context.WithTimeout(ctxb, time.Minute)
	defer cancel()
	_, err := s.Inspect(ctx, "x")
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "connect to the primary alone") {
		t.Errorf("got %v, want an error that names the cause", err)
	}
}

// TestUnknownParameter: a parameter that the driver or the server does not know, and that is
// nearly one of the command's, is named.
func TestUnknownParameter(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		url := "mysql://root@" + server.Addr + "/test?namspace=x"
		if k.dialect == sqlstore.PostgreSQL {
			url = pgSource(server.Port) + "&namspace=x"
		}
		_, err := sqlstore.Open(ctxb, url, nil)
		if err == nil || !strings.Contains(err.Error(), "did you mean namespace?") {
			t.Errorf("got %v, want a hint", err)
		}
	})
}

// TestOpenNamesWhatIsMissing: one line with the address, the answer of the server and what
// to do.
func TestOpenNamesWhatIsMissing(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		url := "mysql://root@" + server.Addr + "/nowhere"
		if k.dialect == sqlstore.PostgreSQL {
			url = "postgres://postgres@" + server.Addr + "/nowhere"
		}
		_, err := sqlstore.Open(ctxb, url, nil)
		if err == nil || errors.Is(err, sqlstore.ErrNoTables) || !strings.HasPrefix(err.Error(), "sqlstore: open "+server.Addr+": ") ||
			!strings.Contains(err.Error(), "create the database") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v of a database that does not exist", err)
		}
	})
}

// TestOpenedStoreChecksTheDatabase: Open fails until the tables are there, and for a database that
// may lose grants, as those of these tests do. Parameters of the URL create the tables and accept
// the database. A store of FromURL refuses its first session instead.
func TestOpenedStoreChecksTheDatabase(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		url := "mysql://root@" + server.Addr + "/test?"
		if k.dialect == sqlstore.PostgreSQL {
			url = pgSource(server.Port) + "&"
		}
		url += fmt.Sprintf("namespace=by-url%d&max_ttl=20s", spaces.Add(1))
		byOpen := func(url string) error {
			s, err := fencelock.OpenStore(ctxb, url)
			if err != nil {
				return err
			}
			defer s.Close()
			if ttl := s.Caps().MaxTTL; ttl != 20*time.Second {
				t.Errorf("MaxTTL is %v", ttl)
			}
			return visit(s)
		}
		lazily := func(url string) error {
			s, err := sqlstore.FromURL(url, nil)
			must.OK(t, err)
			defer s.Close()
			return visit(s)
		}
		for _, session := range []func(string) error{lazily, byOpen} {
			if err := session(url); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "migrate=true") {
				t.Errorf("got %v without tables, want a refusal that says how to create them", err)
			}
		}
		for _, err := range []error{byOpen(url + "&migrate=true"), lazily(url)} {
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "accept=") {
				t.Errorf("got %v from a database that may lose grants, want a refusal that says how to accept it", err)
			}
		}
		must.OK(t, byOpen(url+"&accept=fsync,flush-log,sync-binlog"))
		must.OK(t, lazily(url+"&accept=fsync,flush-log,sync-binlog"))
	})
}

// TestReaderIsLetIn: a program that only reads locks can open a database on which they are unsafe, or
// that has no tables yet, to see what to create. A session is refused.
func TestReaderIsLetIn(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		url := "mysql://root@" + server.Addr + "/test?namespace=nowhere"
		if k.dialect == sqlstore.PostgreSQL {
			url = pgSource(server.Port) + "&namespace=nowhere"
		}
		s, err := driver.OpenStore(ctxb, url, driver.OpenOptions{Refused: func(error) {}})
		must.OK(t, err)
		defer s.Close()
		if !strings.Contains(s.(*sqlstore.Store).Schema(), "nowhere_lock") {
			t.Error("the schema does not have the tables")
		}
		if err := visit(s); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("a session: got %v, want a refusal", err)
		}
	})
}
