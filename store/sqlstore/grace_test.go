// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// namespace is tables of a test, and stores on them with other options.
type namespace struct {
	t    *testing.T
	k    kind
	db   *sql.DB
	opts sqlstore.Options
}

func newNamespace(t *testing.T, k kind, server *servers.Server) *namespace {
	db := k.connect(t, server.Port)
	return &namespace{t, k, db, k.space(t, db)}
}

// process returns a store as another process has it.
func (n *namespace) process(grace bool, maxTTL time.Duration) *sqlstore.Store {
	n.t.Helper()
	opts := n.opts
	opts.Grace, opts.MaxTTL = grace, maxTTL
	return n.k.store(n.t, n.db, &opts)
}

// session opens a session.
func (n *namespace) session(s driver.Store, ttl time.Duration) driver.Session {
	n.t.Helper()
	ss, renewal, err := s.Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: ttl})
	must.OK(n.t, err)
	if renewal.TTL != ttl {
		n.t.Errorf("a session of %v is trusted for %v", ttl, renewal.TTL)
	}
	return ss
}

// set changes the row of the incarnation.
func (n *namespace) set(assignments string) {
	n.t.Helper()
	must.OK(n.t, exec(n.db, "UPDATE "+n.opts.Prefix()+"incarnation SET "+assignments))
}

// age makes the incarnation older than every grace period. Sessions that are open end.
func (n *namespace) age() { n.set("incarnation = incarnation - 3600000000, grace_end = 0") }

// old sets the tables up an hour ago, without grace.
func (n *namespace) old() {
	n.t.Helper()
	must.OK(n.t, n.session(n.process(false, 0), time.Second).Close(ctxb))
	n.age()
}

// takeOver makes the tables those of another server.
func (n *namespace) takeOver() { n.set("identity = 'another server'") }

// empty loses everything.
func (n *namespace) empty() {
	n.t.Helper()
	for _, table := range tables {
		must.OK(n.t, exec(n.db, "DELETE FROM "+n.opts.Prefix()+table))
	}
}

// wantGrace checks how long the grace period is that a store finds.
func (n *namespace) wantGrace(s driver.Store, what string, least, most time.Duration) {
	n.t.Helper()
	st, err := s.Inspect(ctxb, "x")
	if err != nil || st.Grace < least || st.Grace > most {
		n.t.Errorf("%s: a grace period of %v, %v, want %v to %v", what, st.Grace, err, least, most)
	}
}

// wantSettings checks what a store shows.
func (n *namespace) wantSettings(s *sqlstore.Store, what, grace, maxTTL string) {
	n.t.Helper()
	all, err := s.Settings(ctxb)
	if err != nil || len(all) != 2 || all[0].Name != "grace" || all[0].Value != grace || all[1].Name != "max_ttl" || all[1].Value != maxTTL || all[0].Change == "" || all[1].Change == "" {
		n.t.Errorf("%s: settings %+v, %v, want grace %s and max_ttl %s", what, all, err, grace, maxTTL)
	}
}

// TestGraceIsSwitchedOnLive: one process that asks for grace gives it to the tables. Nobody is
// refused, nothing waits, and a loss that a process finds which did not ask begins a grace period.
func TestGraceIsSwitchedOnLive(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		n := newNamespace(t, k, server)
		plainly, asks := n.process(false, 0), n.process(true, 0)
		n.wantVacant(plainly)
		n.old()
		holder := n.session(plainly, 10*time.Second)
		attempt(t, holder, plain(1, "x"), driver.Granted)
		n.wantSettings(plainly, "before", "false", "10s")
		next := n.session(asks, 10*time.Second)
		n.wantSettings(plainly, "after", "true", "15s")
		attempt(t, next, plain(1, "y"), driver.Granted)
		if _, err := holder.KeepAlive(ctxb); err != nil {
			t.Errorf("the session of before: %v", err)
		}
		if found, err := plainly.Check(ctxb); err != nil || !has(found, "grace-not-asked") {
			t.Errorf("of the process that does not ask: %v, %v", found, err)
		}
		if found, err := asks.Check(ctxb); err != nil || has(found, "grace-not-asked") || has(found, "replicas-without-grace") {
			t.Errorf("of the process that asks: %v, %v", found, err)
		}
		n.takeOver()
		n.wantGrace(n.process(false, 0), "a loss that a stranger finds", 10*time.Second, 15*time.Second)
	})
}

func (n *namespace) wantVacant(s *sqlstore.Store) {
	n.t.Helper()
	if all, err := s.Settings(ctxb); err != nil || len(all) != 0 {
		n.t.Errorf("settings of tables that were not used: %+v, %v", all, err)
	}
}

// TestProcessRemembersGrace: a process that did not ask has seen grace, at Open or in the answer to
// a keep-alive, and asks for it when the tables have lost it. What an operator switched off it does not
// ask for.
func TestProcessRemembersGrace(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		n := newNamespace(t, k, server)
		n.old()
		plainly, asks := n.process(false, 0), n.process(true, 0)
		ss := n.session(plainly, 10*time.Second)
		n.session(asks, 10*time.Second)
		_, err := ss.KeepAlive(ctxb)
		must.OK(t, err)
		n.empty()
		n.session(plainly, 10*time.Second)
		n.wantGrace(plainly, "seen in a keep-alive", 5*time.Second, 15*time.Second)
		n.wantSettings(plainly, "after a loss", "true", "15s")

		seen := n.process(false, 0)
		n.session(seen, time.Second)
		n.empty()
		n.session(n.process(false, 0), time.Second) // a stranger is first
		n.wantSettings(seen, "set up by a stranger", "false", "1s")
		n.session(seen, time.Second)
		n.wantSettings(seen, "seen at Open", "true", "15s")
		n.wantGrace(seen, "the rest of the grace period", 5*time.Second, 15*time.Second)

		n.set("grace_end = 0") // it is over
		operator := n.process(false, 0)
		must.OK(t, operator.Configure(ctxb, "grace", "false"))
		must.OK(t, operator.Configure(ctxb, "max_ttl", "2s"))
		n.session(seen, time.Second)
		n.wantSettings(seen, "made weaker by an operator", "false", "2s")
	})
}

// TestRestOfTheGracePeriod: a process that knows of a longer TTL than the one that set up the
// tables after a loss prolongs the grace period.
func TestRestOfTheGracePeriod(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		n := newNamespace(t, k, server)
		knows := n.process(true, 40*time.Second)
		n.session(n.process(true, 5*time.Second), 5*time.Second)
		n.wantGrace(knows, "of the first", time.Second, 5*time.Second)
		n.session(knows, 5*time.Second)
		n.wantGrace(knows, "of the one that knows more", 20*time.Second, 40*time.Second)
		n.age()
		n.session(n.process(true, time.Minute), 5*time.Second)
		n.wantGrace(knows, "in an old incarnation", 0, 0)

		n = newNamespace(t, k, server)
		stranger := n.process(false, 0)
		n.session(stranger, 15*time.Second)
		n.takeOver()
		n.wantGrace(stranger, "a loss without grace", 0, 0)
		n.session(n.process(true, 0), 15*time.Second)
		n.wantGrace(stranger, "and then a process that asks", 5*time.Second, 15*time.Second)
	})
}

// TestRestOfTheGracePeriodPutsNothingBackAfterANewerGrant: a stranger was the first after a loss. The lease of before is put back
// if the stranger was granted nothing, and lost if it was granted the lock, and has released it (R4).
func TestRestOfTheGracePeriodPutsNothingBackAfterANewerGrant(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		for _, granted := range []bool{false, true} {
			n := newNamespace(t, k, server)
			n.old()
			asks, req := n.process(true, 0), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 15 * time.Second}
			ss, _, err := asks.Open(ctxb, req)
			must.OK(t, err)
			token := attempt(t, ss, plain(1, "x"), driver.Granted).Token
			n.empty()
			stranger := n.session(n.process(false, 0), 5*time.Second)
			if granted {
				attempt(t, stranger, plain(1, "x"), driver.Granted)
				_, err = stranger.Withdraw(ctxb, driver.Withdrawal{Seq: 1, Name: "x"})
				must.OK(t, err)
			}
			req.Before = ss
			ss, _, err = asks.Open(ctxb, req)
			must.OK(t, err)
			queued := plain(2, "x")
			queued.Queue = true
			attempt(t, stranger, queued, driver.Queued) // it makes the row of a lock that has none
			kept, err := ss.Reclaim(ctxb, []driver.Held{{Claim: *plain(1, "x"), Token: token}}, true)
			if err != nil || kept[0] == granted {
				t.Errorf("a stranger was granted the lock: %v; the lease was kept: %v, %v", granted, kept, err)
			}
		}
	})
}

// TestLossInAGracePeriod: a second loss does not shorten the grace period of the first.
func TestLossInAGracePeriod(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		n := newNamespace(t, k, server)
		s := n.process(true, time.Minute)
		must.OK(t, n.session(s, 15*time.Second).Close(ctxb))
		for _, weaker := range [][2]string{{"max_ttl", "15s"}, {"grace", "false"}} {
			if err := n.process(false, 0).Configure(ctxb, weaker[0], weaker[1]); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "grace period") {
				t.Errorf("%s in a grace period: %v, want it refused", weaker, err)
			}
		}
		n.takeOver()
		n.wantGrace(n.process(true, 0), "after the second loss", 30*time.Second, time.Minute)

		n = newNamespace(t, k, server)
		n.session(n.process(false, 0), 15*time.Second)
		n.takeOver()
		n.wantGrace(n.process(false, 0), "without grace", 0, 0)
		n.takeOver()
		n.session(n.process(true, time.Minute), 15*time.Second)
		n.wantGrace(n.process(true, 0), "after both losses", 30*time.Second, time.Minute)
	})
}

// TestHighestMaxTTLDecidesTheGracePeriod: a process that declares less than another does not make it shorter,
// neither while the tables remember it (rule Highest of package gracemodel) nor after they are lost (rule Known).
func TestHighestMaxTTLDecidesTheGracePeriod(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		n := newNamespace(t, k, server)
		n.old()
		longer, shorter := n.process(true, 40*time.Second), n.process(true, 5*time.Second)
		n.session(longer, 5*time.Second)
		n.session(shorter, 5*time.Second)
		n.wantSettings(shorter, "after both", "true", "40s")
		n.takeOver()
		n.wantGrace(n.process(true, 5*time.Second), "a loss", 20*time.Second, 40*time.Second)
		n.empty()
		n.session(shorter, 5*time.Second)
		n.wantGrace(shorter, "a total loss", 20*time.Second, 40*time.Second)
	})
}

// TestOtherLayoutIsRefused: the error says what to do, and not to use another namespace.
func TestOtherLayoutIsRefused(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		n := newNamespace(t, k, server)
		s := n.process(false, 0)
		must.OK(t, visit(s))
		check := func(what string) {
			t.Helper()
			err := visit(n.process(true, 0))
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "use the same version in all processes") ||
				!strings.Contains(err.Error(), "another namespace would not exclude") {
				t.Errorf("%s: got %v, want a refusal with safe advice", what, err)
			}
		}
		n.set("layout = 'v9'")
		check("a later layout")
		n.set("layout = 'v2'")
		must.OK(t, exec(n.db, "ALTER TABLE "+n.opts.Prefix()+"incarnation DROP COLUMN grace"))
		check("an earlier layout")
	})
}
