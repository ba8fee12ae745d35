// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// aYear in microseconds, as the tables have times.
const aYear = "31536000000000"

// TestClockSetBack: what was written while the server's clock was ahead by a year does not
// last for a year after the clock was corrected: neither the session of a process that died,
// nor grace, nor a hold. A session that lives keeps what its process trusts in.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		k.opts.Grace, k.opts.MaxTTL = true, 6*time.Second
		opts := k.space(t, db)
		s := k.store(t, db, &opts)
		dead, _, err := s.Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 4 * time.Second})
		must.OK(t, err)
		must.OK(t, exec(db, "UPDATE "+opts.Prefix()+"incarnation SET grace_end = 0"))
		_, err = dead.Attempt(ctxb, plain(1, "x"))
		must.OK(t, err)
		held := plain(2, "held")
		held.Terms.MinHold = time.Second
		_, err = dead.Attempt(ctxb, held)
		must.OK(t, err)
		idle, _, err := s.Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 4 * time.Second})
		must.OK(t, err)

		must.OK(t, exec(db, "UPDATE "+opts.Prefix()+"session SET ends = ends + "+aYear))
		must.OK(t, exec(db, "UPDATE "+opts.Prefix()+"incarnation SET grace_end = incarnation + "+aYear))
		move := "grants = JSON_SET(grants, '$[0].minend', CAST(JSON_EXTRACT(grants, '$[0].minend') AS SIGNED) + " + aYear + ")"
		if k.dialect == sqlstore.PostgreSQL {
			move = "grants = jsonb_set(grants, '{0,minend}', to_jsonb((grants->0->>'minend')::bigint + " + aYear + "))"
		}
		must.OK(t, exec(db, "UPDATE "+opts.Prefix()+"lock SET "+move+" WHERE name = 'held'"))

		if _, err := idle.KeepAlive(ctxb); err != nil {
			t.Errorf("the session that lives: %v", err)
		}
		c := client(t, s, 6*time.Second)
		for _, name := range []string{"x", "held"} {
			must.OK(t, lock(t, c, name).Unlock(ctxb))
		}
		must.OK(t, sqlstore.Sweep(ctxb, s))
		var ahead int
		tomorrow := time.Now().Add(24 * time.Hour).UnixMicro()
		must.OK(t, db.QueryRow(fmt.Sprintf("SELECT count(*) FROM %ssession WHERE ends > %d", opts.Prefix(), tomorrow)).Scan(&ahead))
		if ahead != 0 {
			t.Errorf("%d sessions still end next year", ahead)
		}
	})
}

// TestClockSetBackBehindAHolder: a claim that waits is attempted again, and takes back the end
// of its holder's session that is a year ahead: the holder may have died.
func TestClockSetBackBehindAHolder(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		s := k.store(t, db, &opts)
		holder, waiter := open(t, s), open(t, s)
		attempt(t, holder, plain(1, "x"), driver.Granted)
		attempt(t, waiter, queued(1, "x"), driver.Queued)
		must.OK(t, exec(db, "UPDATE "+opts.Prefix()+"session SET ends = ends + "+aYear))
		attempt(t, waiter, queued(1, "x"), driver.Queued)
		var ahead int
		tomorrow := time.Now().Add(24 * time.Hour).UnixMicro()
		must.OK(t, db.QueryRow(fmt.Sprintf("SELECT count(*) FROM %ssession WHERE ends > %d", opts.Prefix(), tomorrow)).Scan(&ahead))
		if ahead != 0 {
			t.Errorf("%d sessions still end next year", ahead)
		}
	})
}
