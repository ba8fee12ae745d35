// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestOperatorsNeedNoSettings: a process that inspects, lists and breaks takes the settings
// from the tables, and sets up none.
func TestOperatorsNeedNoSettings(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		k.opts.MaxTTL, k.opts.Grace = 5*time.Second, true
		opts := k.space(t, db)
		plainOpts := sqlstore.Options{Namespace: opts.Namespace}
		tool := k.store(t, db, &plainOpts)
		operate(t, tool, 0)
		var rows int
		must.OK(t, db.QueryRow("SELECT count(*) FROM "+opts.Prefix()+"incarnation").Scan(&rows))
		if rows != 0 {
			t.Error("an operator's calls have set the tables up")
		}
		app := k.store(t, db, &opts)
		must.OK(t, visit(app))
		must.OK(t, exec(db, "UPDATE "+opts.Prefix()+"incarnation SET grace_end = 0"))
		ss, _, err := app.Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 5 * time.Second})
		must.OK(t, err)
		out, err := ss.Attempt(ctxb, plain(1, "x"))
		must.OK(t, err)
		operate(t, tool, out.Token)

		// After a failover the first call may be an operator's: the grace period is that of
		// the tables.
		must.OK(t, exec(db, "UPDATE "+opts.Prefix()+"incarnation SET identity = 'another server'"))
		st, err := tool.Inspect(ctxb, "x")
		if err != nil || st.Grace <= 0 {
			t.Errorf("after a failover: got %+v, %v, want a grace period", st, err)
		}
		if findings, err := tool.Check(ctxb); err != nil || has(findings, "replicas-without-grace") {
			t.Errorf("Check by its own settings: %v, %v", findings, err)
		}
	})
}

// operate makes an operator's calls, and checks what they show of the lock x. A token of 0
// stands for a lock that is not held.
func operate(t *testing.T, tool *sqlstore.Store, token driver.Token) {
	t.Helper()
	want := 1
	if token == 0 {
		want = 0
	}
	st, err := tool.Inspect(ctxb, "x")
	if err != nil || st.Name != "x" || len(st.Holders) != want {
		t.Errorf("inspect: got %+v, %v, want %d holders", st, err, want)
	}
	page, err := tool.List(ctxb, driver.ListQuery{Max: 10})
	if err != nil || len(page.Locks) != want {
		t.Errorf("list: got %+v, %v, want %d locks", page, err, want)
	}
	fence, err := tool.Break(ctxb, "x", max(token, driver.TokenStep))
	if token == 0 && !errors.Is(err, driver.ErrNotHeld) || token != 0 && (err != nil || fence <= token) {
		t.Errorf("break: got %v, %v", fence, err)
	}
}
