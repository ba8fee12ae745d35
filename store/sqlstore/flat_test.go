// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// aMinute is a minute, in the unit of the tables.
const aMinute = "60000000"

// TestFlatLockComparesEverything: the flat statement grants nothing if one of the conditions fails that the
// longer statements have, and grants again when it holds.
func TestFlatLockComparesEverything(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		s := k.store(t, db, &opts)
		ss := open(t, s)
		sqlstore.AwaitSweep(s) // or it removes the session that has ended here for a moment
		attempt(t, ss, plain(1, "x"), driver.Granted)
		withdraw(t, ss, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		run := func(text string) {
			t.Helper()
			must.OK(t, exec(db, strings.NewReplacer("{p}", opts.Prefix(), "MINUTE", aMinute).Replace(text)))
		}
		for _, c := range []struct{ name, breaks, repairs string }{
			{"another incarnation", "UPDATE {p}incarnation SET incarnation = incarnation + 1", "UPDATE {p}incarnation SET incarnation = incarnation - 1"},
			{"a grace period", "UPDATE {p}incarnation SET grace_end = incarnation + 10 * MINUTE", "UPDATE {p}incarnation SET grace_end = 0"},
			{"the session has ended", "UPDATE {p}session SET ends = ends - 10 * MINUTE", "UPDATE {p}session SET ends = ends + 10 * MINUTE"},
			{"another generation", "UPDATE {p}session SET generation = generation + 1", "UPDATE {p}session SET generation = generation - 1"},
			{"of an earlier incarnation", "UPDATE {p}session SET inc = inc - 1", "UPDATE {p}session SET inc = inc + 1"},
			{"a holder", "UPDATE {p}lock SET holder = 'another'", "UPDATE {p}lock SET holder = NULL"},
			{"several holders", "UPDATE {p}lock SET grants = '[]'", "UPDATE {p}lock SET grants = NULL"},
			{"a queue", "UPDATE {p}lock SET queue = '[]'", "UPDATE {p}lock SET queue = NULL"},
			{"marks", "UPDATE {p}lock SET marks = '[]'", "UPDATE {p}lock SET marks = NULL"},
		} {
			run(c.breaks)
			if took, err := sqlstore.Take(ss, "x", 2); err != nil || took {
				t.Errorf("%s: took it: %t, %v", c.name, took, err)
			}
			run(c.repairs)
			if took, err := sqlstore.Take(ss, "x", 2); err != nil || !took {
				t.Fatalf("%s, repaired: took it: %t, %v", c.name, took, err)
			}
			withdraw(t, ss, driver.Withdrawal{Seq: 2, Name: "x"}, driver.WasGranted)
		}
		is := sqlstore.Server(ss)
		sqlstore.SetServer(ss, "another")
		if took, err := sqlstore.Take(ss, "x", 2); err != nil || took {
			t.Errorf("on another server: took it: %t, %v", took, err)
		}
		attempt(t, ss, plain(2, "x"), driver.Granted) // by the statement that compares the identity
		if _, err := ss.KeepAlive(ctxb); err != nil || k.dialect == sqlstore.PostgreSQL && sqlstore.Server(ss) != is {
			t.Errorf("after a keep-alive the server is %q, %v; want %q", sqlstore.Server(ss), err, is)
		}
	})
}

// TestFlatLockIsAboveTheFloor: no token at or below the floor is given out.
func TestFlatLockIsAboveTheFloor(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		ss := open(t, k.store(t, db, &opts))
		first := attempt(t, ss, plain(1, "x"), driver.Granted)
		withdraw(t, ss, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		must.OK(t, exec(db, "UPDATE "+opts.Prefix()+"incarnation SET floor = floor + 1000"))
		out := attempt(t, ss, plain(2, "x"), driver.Granted)
		if least := first.Token + 1000*driver.TokenStep; out.Token < least {
			t.Errorf("token %v, want %v at least", out.Token, least)
		}
	})
}

// TestFlatUnlockTakesOnlyItsOwnGrant: it leaves alone what is of another claim, generation or incarnation, has
// a queue, or is on another server.
func TestFlatUnlockTakesOnlyItsOwnGrant(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		ss := open(t, k.store(t, db, &opts))
		attempt(t, ss, plain(1, "x"), driver.Granted)
		for name, set := range map[string][2]string{
			"another session":     {"holder = 'another'", "holder = '" + sessionOf(t, db, &opts) + "'"},
			"another claim":       {"seq = seq + 1", "seq = seq - 1"},
			"another generation":  {"generation = generation + 1", "generation = generation - 1"},
			"another incarnation": {"inc = inc + 1", "inc = inc - 1"},
			"a queue":             {"queue = '[]'", "queue = NULL"},
		} {
			must.OK(t, exec(db, "UPDATE "+opts.Prefix()+"lock SET "+set[0]))
			if done, err := sqlstore.Unlock(ss, "x", 1); err != nil || done {
				t.Errorf("%s: unlocked: %t, %v", name, done, err)
			}
			must.OK(t, exec(db, "UPDATE "+opts.Prefix()+"lock SET "+set[1]))
		}
		is := sqlstore.Server(ss)
		sqlstore.SetServer(ss, "another")
		if done, err := sqlstore.Unlock(ss, "x", 1); err != nil || done {
			t.Errorf("on another server: unlocked: %t, %v", done, err)
		}
		sqlstore.SetServer(ss, is)
		if done, err := sqlstore.Unlock(ss, "x", 1); err != nil || !done {
			t.Errorf("unlocked: %t, %v", done, err)
		}
		withdraw(t, ss, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasAbsent)
	})
}

// TestLocksAfterARestartAreFlatAgain: another postmaster has another start, and the
// session learns of it. Until then locks cost a statement more.
func TestLocksAfterARestartAreFlatAgain(t *testing.T) {
	t.Parallel()
	s, err := servers.Postgres("fsync=off")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(s.Stop)
	db := onPostgres.connect(t, s.Port)
	opts := onPostgres.space(t, db)
	ss, _, err := onPostgres.store(t, db, &opts).Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute})
	must.OK(t, err)
	attempt(t, ss, plain(1, "x"), driver.Granted)
	withdraw(t, ss, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
	before := sqlstore.Server(ss)
	db.SetMaxIdleConns(-1) // no connection to the postmaster of before
	must.OK(t, s.Restart())
	granted(t, ss, plain(2, "x")) // the restart may have undone the unlock
	withdraw(t, ss, driver.Withdrawal{Seq: 2, Name: "x"}, driver.WasGranted)
	if _, err := ss.KeepAlive(ctxb); err != nil {
		t.Fatal(err)
	}
	if now := sqlstore.Server(ss); now == before {
		t.Errorf("the server is still %q", now)
	}
	if took, err := sqlstore.Take(ss, "x", 3); err != nil || !took {
		t.Errorf("took it: %t, %v", took, err)
	}
}

// sessionOf returns the id of the only session.
func sessionOf(t *testing.T, db *sql.DB, opts *sqlstore.Options) (id string) {
	t.Helper()
	must.OK(t, db.QueryRow("SELECT id FROM "+opts.Prefix()+"session").Scan(&id))
	return id
}
