// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
	"github.com/go-sql-driver/mysql"
)

// wrapped hides what a driver's connections are.
type wrapped struct{ sqldriver.Connector }

func (w wrapped) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := w.Connector.Connect(ctx)
	return struct{ sqldriver.Conn }{conn}, err
}

// TestHandoffLocksBehindAWrapper: a connector that wraps a known driver works, with handoff locks or without.
func TestHandoffLocksBehindAWrapper(t *testing.T) {
	ringing(t, func(t *testing.T, k kind, server *servers.Server) {
		c := newCrowd(t, k, server, "x")
		config, err := mysql.ParseDSN(k.source(server.Port))
		must.OK(t, err)
		inner, err := mysql.NewConnector(config)
		must.OK(t, err)
		db := sql.OpenDB(wrapped{inner})
		t.Cleanup(func() { db.Close() })
		s := c.store(t, db)
		ss := open(t, s)
		sqlstore.TryHandoffLock(ctxb, s)
		attempt(t, ss, queued(1, "x"), driver.Queued)
		a := await(t, ss, "x")
		findings, err := s.Check(ctxb)
		must.OK(t, err)
		if has(findings, "handoff-locks") == (sqlstore.HandoffLockOf(ss, 1) != "") {
			t.Errorf("handoff lock %v, and Check found %v", sqlstore.HandoffLockOf(ss, 1), findings)
		}
		c.release(t, 1, "x")
		a.granted(t)
	})
}

// between is a connector whose connections prepare what a function makes of a statement.
type between struct {
	sqldriver.Connector
	prepare func(ctx context.Context, conns [2]sqldriver.Conn, text string) (sqldriver.Stmt, error)
}

type betweenConn struct {
	sqldriver.Conn
	b     between
	conns [2]sqldriver.Conn
}

func (b between) Connect(ctx context.Context) (sqldriver.Conn, error) {
	one, err := b.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	two, err := b.Connector.Connect(ctx)
	return &betweenConn{one, b, [2]sqldriver.Conn{one, two}}, err
}

func (c *betweenConn) PrepareContext(ctx context.Context, text string) (sqldriver.Stmt, error) {
	return c.b.prepare(ctx, c.conns, text)
}

func (c *betweenConn) Close() error { return errors.Join(c.conns[0].Close(), c.conns[1].Close()) }

// TestHandoffLocksThatCannotWork: behind a proxy that gives statements to several connections, and on a
// server without named locks, claims poll, no handoff lock is tried again, and Check notes it.
func TestHandoffLocksThatCannotWork(t *testing.T) {
	for name, prepare := range map[string]func(ctx context.Context, conns [2]sqldriver.Conn, text string) (sqldriver.Stmt, error){
		"proxy": func(ctx context.Context, conns [2]sqldriver.Conn, text string) (sqldriver.Stmt, error) {
			i := 0
			if strings.Contains(text, "IS_USED_LOCK") {
				i = 1
			}
			return conns[i].(sqldriver.ConnPrepareContext).PrepareContext(ctx, text)
		},
		"galera": func(ctx context.Context, conns [2]sqldriver.Conn, text string) (sqldriver.Stmt, error) {
			if strings.Contains(text, "GET_LOCK") {
				return nil, &mysql.MySQLError{Number: 1235, Message: "GET_LOCK in cluster (WSREP_ON=ON)"}
			}
			return conns[0].(sqldriver.ConnPrepareContext).PrepareContext(ctx, text)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ringing(t, func(t *testing.T, k kind, server *servers.Server) {
				c := newCrowd(t, k, server, "x")
				config, err := mysql.ParseDSN(k.source(server.Port))
				must.OK(t, err)
				inner, err := mysql.NewConnector(config)
				must.OK(t, err)
				db := sql.OpenDB(between{inner, prepare})
				t.Cleanup(func() { db.Close() })
				s := c.store(t, db)
				ss := open(t, s)
				if sqlstore.TryHandoffLock(ctxb, s) || !sqlstore.NoHandoffLocks(s) {
					t.Fatal("there is a handoff lock, or there may be one later")
				}
				attempt(t, ss, queued(1, "x"), driver.Queued)
				findings, err := s.Check(ctxb)
				must.OK(t, err)
				if !has(findings, "handoff-locks") || sqlstore.HandoffLockOf(ss, 1) != "" || sqlstore.HandoffLocks(s) != 0 {
					t.Errorf("handoff lock %q of %d, and Check found %v", sqlstore.HandoffLockOf(ss, 1), sqlstore.HandoffLocks(s), findings)
				}
				a := await(t, ss, "x")
				c.release(t, 1, "x")
				a.granted(t)
			})
		})
	}
}

// proxyOf returns a proxy of a server, which sees and disturbs what a store sends.
func proxyOf(t *testing.T, server *servers.Server) *servers.Proxy {
	t.Helper()
	p, err := servers.NewProxy(server.Addr)
	must.OK(t, err)
	t.Cleanup(p.Close)
	return p
}
