// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestOpenedStoreCommits: with autocommit off in the server, what a store grants that Open made
// is committed all the same. A grant that is not would go with its connection, and the next
// holder would get the same token beside the first.
func TestOpenedStoreCommits(t *testing.T) {
	t.Parallel()
	server := servers.Test(t, func() (*servers.Server, error) { return servers.MariaDB() })
	db := onMariaDB.connect(t, server.Port)
	db.SetMaxOpenConns(1) // it was made before, and commits
	must.OK(t, exec(db, "SET GLOBAL autocommit = 0"))
	s, err := sqlstore.Open(ctxb, fmt.Sprintf("mysql://root@%s/test?migrate=true", server.Addr), nil)
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	l := lock(t, client(t, s, 10*time.Second), "x")
	var counter int64
	must.OK(t, db.QueryRow("SELECT counter FROM fencelock_lock WHERE holder IS NOT NULL").Scan(&counter))
	if got := driver.Token(counter * driver.TokenStep); got != l.Token() {
		t.Errorf("token %v is committed, %v was granted", got, l.Token())
	}
	if findings, err := s.Check(ctxb); err != nil || has(findings, "autocommit") {
		t.Errorf("Check: %v, %v, want nothing about autocommit", findings, err)
	}
}

// TestHandleWithoutAutocommitIsRefused: a store on a handle whose statements are not committed
// grants, breaks and changes nothing; the error and Check say what to add.
func TestHandleWithoutAutocommitIsRefused(t *testing.T) {
	for _, k := range []kind{onMariaDB, onMySQL} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			server := need(t, k.start)
			db := k.connect(t, server.Port)
			opts := k.space(t, db)
			must.OK(t, visit(k.store(t, db, &opts)))
			source := k.source
			k.source = func(port int) string { return source(port) + "&autocommit=0" }
			s := k.store(t, k.connect(t, server.Port), &opts)
			_, _, open := s.Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 10 * time.Second})
			_, broken := s.Break(ctxb, "x", driver.TokenStep)
			if !errors.Is(open, driver.ErrRefused) || errors.Is(open, driver.ErrUnavailable) {
				t.Errorf("got %v, want a refusal", open)
			}
			for op, err := range map[string]error{"open": open, "break": broken, "limit": s.SetLimit(ctxb, "x", 2)} {
				if err == nil || !strings.Contains(err.Error(), "add autocommit=1") {
					t.Errorf("%s: got %v, want an error that says what to add", op, err)
				}
			}
			findings, err := s.Check(ctxb)
			must.OK(t, err)
			if !hasDanger(findings, "autocommit") {
				t.Errorf("Check: %v, want the danger autocommit", findings)
			}
		})
	}
}

// TestConnectionThatStopsCommitting: a later connection of a handle may have other settings than
// the one that was asked first, if the server's were changed. Nothing is granted on it.
func TestConnectionThatStopsCommitting(t *testing.T) {
	for _, k := range []kind{onMariaDB, onMySQL} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			server := need(t, k.start)
			db := k.connect(t, server.Port)
			opts := k.space(t, db)
			db.SetMaxOpenConns(1)
			s := k.store(t, db, &opts)
			ss, _, err := s.Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 30 * time.Second})
			must.OK(t, err)
			must.OK(t, exec(db, "SET SESSION autocommit = 0"))
			if out, err := ss.Attempt(ctxb, plain(1, "x")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "autocommit") {
				t.Errorf("without autocommit: got %v, %v, want an error that names it", out.State, err)
			}
			must.OK(t, exec(db, "ROLLBACK"))
			must.OK(t, exec(db, "SET SESSION autocommit = 1"))
			if out, err := ss.Attempt(ctxb, plain(1, "x")); err != nil || out.State != driver.Granted {
				t.Errorf("with it again: got %v, %v, want a grant", out.State, err)
			}
		})
	}
}

func hasDanger(findings []driver.Finding, code string) bool {
	for _, f := range findings {
		if f.Code == code && f.Severity == driver.Danger {
			return true
		}
	}
	return false
}
