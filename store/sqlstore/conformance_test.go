// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestConformance checks the store clauses on real servers. Nearly all of its time is
// waiting, so several cases run at once, each in its own tables and through its own proxy.
// With a grace period it runs only the cases that depend on it.
func TestConformance(t *testing.T) {
	t.Parallel()
	graceful := slices.DeleteFunc(drivertest.Cases(), func(c drivertest.Case) bool {
		return c.Clause.ID[0] != 'R' && !slices.Contains([]string{"T5", "X3", "W7", "W8"}, c.Clause.ID)
	})
	for _, run := range []struct {
		kind  kind
		grace bool
		cases []drivertest.Case
	}{
		{onPostgres, false, drivertest.Cases()}, {onMariaDB, false, drivertest.Cases()}, {onPgbouncer, false, drivertest.Cases()},
		{onMySQL, false, drivertest.Cases()},
		{onPostgres, true, graceful}, {onMariaDB, true, graceful}, {onMySQL, true, graceful},
	} {
		t.Run(fmt.Sprintf("%s/grace=%t", run.kind.name, run.grace), func(t *testing.T) {
			t.Parallel()
			k := run.kind
			server := need(t, k.start)
			if run.grace {
				k.opts.Grace, k.opts.MaxTTL = true, 10*time.Second
				if k.dialect == sqlstore.MySQL {
					k.source = plainSource // REPEATABLE READ must be correct, too
				}
			}
			var rigs []func(*testing.T) *drivertest.Harness
			for range 12 {
				rigs = append(rigs, newRig(t, k, server).harness)
			}
			drivertest.RunCases(t, run.cases, rigs...)
		})
	}
}

// rig is a way to a server, for one case after the other.
type rig struct {
	opts   sqlstore.Options
	admin  *sql.DB // nothing disturbs it
	proxy  *servers.Proxy
	ways   []*sql.DB // through the proxy, one for each of two processes
	stores []*sqlstore.Store
	saved  bool // the tables of checkpoints are there
}

func newRig(t *testing.T, k kind, server *servers.Server) *rig {
	p, err := servers.NewProxy(server.Addr)
	must.OK(t, err)
	t.Cleanup(p.Close)
	port := server.Port
	if k.name == onPgbouncer.name {
		spare(t, p)
		port = spared(t, server)
	}
	r := &rig{admin: k.connect(t, port), proxy: p}
	r.opts = k.space(t, r.admin)
	for range 2 {
		r.ways = append(r.ways, k.connect(t, p.Port))
	}
	return r
}

// harness returns a harness for one case.
func (r *rig) harness(t *testing.T) *drivertest.Harness {
	t.Cleanup(func() {
		for _, s := range r.stores {
			s.Close()
		}
		r.stores = nil
	})
	return &drivertest.Harness{
		Open: func() (driver.Store, error) {
			if len(r.stores) == 0 {
				// pgx may fail a call with the timeout of another one, which was canceled on the same connection after a slow write.
				if err := r.begin(); err != nil && r.begin() != nil {
					return nil, err
				}
			}
			s, err := sqlstore.New(r.ways[len(r.stores)], &r.opts)
			if err == nil {
				r.stores = append(r.stores, s)
			}
			return s, err
		},
		TTL:     5 * time.Second,
		Slack:   1500 * time.Millisecond, // many cases share few processors here
		Soon:    10 * time.Second,
		Reset:   r.reset,
		Restart: r.restart,
		Checkpoint: func() func() error {
			err := r.save()
			return func() error {
				if err == nil {
					err = r.rewind()
				}
				return err
			}
		},
		Sever: r.proxy.Stall,
	}
}

var tables = []string{"incarnation", "session", "lock"}

// begin empties the tables. Most cases are not about the grace period after a reset.
func (r *rig) begin() error {
	if err := r.reset(); err != nil {
		return err
	}
	s, err := sqlstore.New(r.admin, &r.opts)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := visit(s); err != nil {
		return err
	}
	return r.do("UPDATE {p}incarnation SET grace_end = 0")
}

// visit opens a session and closes it, which sets the tables up.
func visit(s driver.Store) error {
	ss, _, err := s.Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Second})
	if err != nil {
		return err
	}
	return ss.Close(ctxb)
}

// do runs statements on the tables of the rig.
func (r *rig) do(texts ...string) error {
	for _, text := range texts {
		if _, err := r.admin.Exec(strings.ReplaceAll(text, "{p}", r.opts.Prefix())); err != nil {
			return err
		}
	}
	return nil
}

// reset empties the tables, as a restored empty backup would.
func (r *rig) reset() error {
	return r.do("DELETE FROM {p}incarnation", "DELETE FROM {p}session", "DELETE FROM {p}lock")
}

// restart makes the tables belong to another server, as those of a promoted replica do.
func (r *rig) restart() error { return r.do("UPDATE {p}incarnation SET identity = 'another server'") }

// save copies the tables aside.
func (r *rig) save() error {
	for _, table := range tables {
		create := "CREATE TABLE {p}saved_" + table + " AS SELECT * FROM {p}" + table
		if r.saved {
			create = "INSERT INTO {p}saved_" + table + " SELECT * FROM {p}" + table
			if err := r.do("DELETE FROM {p}saved_" + table); err != nil {
				return err
			}
		}
		if err := r.do(create); err != nil {
			return err
		}
	}
	r.saved = true
	return nil
}

// rewind goes back to what was saved, on another server.
func (r *rig) rewind() error {
	for _, table := range tables {
		if err := r.do("DELETE FROM {p}"+table, "INSERT INTO {p}"+table+" SELECT * FROM {p}saved_"+table); err != nil {
			return err
		}
	}
	return r.restart()
}
