// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestHandoffLocksOfTwoStoresOnOneHandle: all stores of a handle keep half of its connections at most,
// and keep their sessions alive while all their claims wait.
func TestHandoffLocksOfTwoStoresOnOneHandle(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		names := []string{"x", "y", "z"}
		c := newCrowd(t, k, server, names...)
		db := k.connect(t, server.Port)
		db.SetMaxOpenConns(4)
		sessions := []driver.Session{c.holder} // it must outlive a slow machine
		for range 2 {
			s := c.store(t, db)
			for _, name := range names {
				ss := open(t, s)
				attempt(t, ss, queued(1, name), driver.Queued)
				await(t, ss, name)
				sessions = append(sessions, ss)
			}
		}
		for range 10 {
			if n := sqlstore.Reserved(db); n > 2 {
				t.Fatalf("%d of 4 connections are kept", n)
			}
			for _, ss := range sessions {
				if _, err := ss.KeepAlive(ctxb); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, name := range names {
			c.release(t, uint64(i)+1, name)
		}
	})
}

// TestHandoffLockOfALongWaitKeepsNoTable: while a claim that is not the first in the queue waits for
// long, the table can be altered, and a backup can lock it.
func TestHandoffLockOfALongWaitKeepsNoTable(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		s := c.store(t, k.connect(t, server.Port))
		await(t, c.waiter(t, c.store(t, k.connect(t, server.Port)), "x"), "x")
		third := c.waiter(t, s, "x")
		await(t, third, "x")
		eventually(t, "that the third claim waits for long", func() bool { return c.waitsLong(t, sqlstore.HandoffLockOf(third, 1)) })
		opts := k.space(t, c.admin)
		s = k.store(t, k.connect(t, server.Port), &opts)
		open(t, s)
		var done <-chan struct{}
		var end func()
		eventually(t, "that there are two handoff locks", func() bool {
			done, _, end = sqlstore.WaitWithoutEnd(ctxb, s, false)
			return done != nil
		})
		must.OK(t, exec(c.admin, "ALTER TABLE "+opts.Prefix()+"lock COMMENT 'altered'"))
		select {
		case <-done:
			t.Error("the wait ended before the table was altered")
		default:
		}
		end()
		soon(t, "the end of the wait", done)
	})
}

// TestHandoffLockAndALimitForStatements: a wait that the server ends by its limit is refused, and the
// handoff locks stay.
func TestHandoffLockAndALimitForStatements(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind
		limit string
	}{{onMariaDB, "&max_statement_time=1"}, {onMySQL, "&max_execution_time=1000"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := need(t, c.start)
			opts := c.space(t, c.connect(t, server.Port))
			db, err := sql.Open(c.driver, c.source(server.Port)+c.limit)
			must.OK(t, err)
			t.Cleanup(func() { db.Close() })
			s := c.store(t, db, &opts)
			open(t, s)
			var done <-chan struct{}
			var refused func() bool
			eventually(t, "that there are two handoff locks", func() bool {
				done, refused, _ = sqlstore.WaitWithoutEnd(ctxb, s, false)
				return done != nil
			})
			soon(t, "the end of the wait", done)
			if n := sqlstore.HandoffLocks(s); n < 2 || !refused() {
				t.Errorf("refused %t, and %d handoff locks are left", refused(), n)
			}
		})
	}
}

// TestHandoffLocksLeaveAConnection: at the limit of connections no handoff lock takes the last connection of a
// handle: sessions stay alive, claims poll, and Check notes it.
func TestHandoffLocksLeaveAConnection(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		user := "few" + strings.TrimSuffix(c.opts.Prefix(), "_")
		for _, from := range []string{"'%'", "'localhost'"} { // an anonymous user of localhost would be preferred
			must.OK(t, exec(c.admin, "CREATE USER "+user+"@"+from+" WITH MAX_USER_CONNECTIONS 1"))
			must.OK(t, exec(c.admin, "GRANT ALL ON test.* TO "+user+"@"+from))
		}
		db, err := sql.Open(k.driver, strings.Replace(k.source(server.Port), "root@", user+"@", 1))
		must.OK(t, err)
		t.Cleanup(func() { db.Close() })
		s := c.store(t, db)
		ss := open(t, s)
		for range 20 { // a sweep may have the connection for a moment, and a handoff lock fails for that, too
			sqlstore.ForgiveHandoffLocks(s)
			if sqlstore.TryHandoffLock(ctxb, s) {
				t.Fatal("a handoff lock has the only connection")
			}
		}
		becomes := func(want driver.State) { // a sweep may have the connection for a moment
			eventually(t, "that the claim is "+want.String(), func() bool {
				out, err := ss.Attempt(ctxb, queued(1, "x"))
				return err == nil && out.State == want
			})
		}
		becomes(driver.Queued)
		eventually(t, "that Check notes it", func() bool {
			findings, err := s.Check(ctxb)
			return err == nil && has(findings, "handoff-locks")
		})
		eventually(t, "that the session is kept alive", func() bool {
			_, err := ss.KeepAlive(ctxb)
			return err == nil
		})
		c.release(t, 1, "x")
		becomes(driver.Granted)
	})
}

// TestNoHandoffLocksInASmallHandle: a handle of one connection has none to wait on. Claims poll, and Check
// notes it.
func TestNoHandoffLocksInASmallHandle(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		db := k.connect(t, server.Port)
		db.SetMaxOpenConns(1)
		s := c.store(t, db)
		ss := open(t, s)
		attempt(t, ss, queued(1, "x"), driver.Queued)
		findings, err := s.Check(ctxb)
		must.OK(t, err)
		if !has(findings, "handoff-locks") || sqlstore.HandoffLockOf(ss, 1) != "" {
			t.Errorf("handoff lock %q, and Check found %v", sqlstore.HandoffLockOf(ss, 1), findings)
		}
		a := await(t, ss, "x")
		c.release(t, 1, "x")
		a.granted(t)
	})
}

// TestCheckWhileSomeClaimsHaveHandoffLocks: a handle has no room for the handoff lock of a third claim. The others work,
// so Check notes nothing.
func TestCheckWhileSomeClaimsHaveHandoffLocks(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x", "y", "z")
		db := k.connect(t, server.Port)
		db.SetMaxOpenConns(4)
		s := c.store(t, db)
		c.waiter(t, s, "x")
		c.waiter(t, s, "y")
		third := open(t, s)
		attempt(t, third, queued(1, "z"), driver.Queued)
		findings, err := s.Check(ctxb)
		must.OK(t, err)
		if has(findings, "handoff-locks") || sqlstore.HandoffLockOf(third, 1) != "" {
			t.Errorf("the third claim has handoff lock %q, and Check found %v", sqlstore.HandoffLockOf(third, 1), findings)
		}
	})
}
