// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/internal/storetest"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestLingeringLockIsGivenBack: another process has a lock that lingers long before it has
// lingered, by Lock and by TryLock, and with a higher token.
func TestLingeringLockIsGivenBack(t *testing.T) {
	t.Parallel()
	server := need(t, postgres)
	db := onPostgres.connect(t, server.Port)
	opts := onPostgres.space(t, db)
	storetest.GivesBack(t, time.Minute, func() driver.Store { return onPostgres.store(t, onPostgres.connect(t, server.Port), &opts) })
}

// TestLingerNeedsNotifications: where no process can listen, holders are notified at their
// next renewal, and locks do not linger.
func TestLingerNeedsNotifications(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind kind
		opts sqlstore.Options
		want driver.Notice
	}{
		{onPostgres, sqlstore.Options{}, driver.NoticeAtOnce},
		{onPostgres, sqlstore.Options{Poll: true}, driver.NoticeAtRenewal},
		{onPostgres, sqlstore.Options{Pooler: true}, driver.NoticeAtRenewal},
		{onMySQL, sqlstore.Options{}, driver.NoticeAtRenewal},
	} {
		s := c.kind.store(t, c.kind.connect(t, 1), &c.opts)
		if caps := s.Caps(); caps.Contended != c.want || caps.Linger != (c.want == driver.NoticeAtOnce) {
			t.Errorf("%s with %+v: notified %v, linger %t", c.kind.name, c.opts, caps.Contended, caps.Linger)
		}
	}
}

// noticed is a session whose notices are counted.
type noticed struct {
	driver.Session
	id   driver.SessionID
	seqs chan uint64
}

func openNoticed(t *testing.T, s driver.Store) noticed {
	t.Helper()
	return openNoticedAs(t, s, driver.NewSessionID())
}

func openNoticedAs(t *testing.T, s driver.Store, id driver.SessionID) noticed {
	t.Helper()
	n := noticed{id: id, seqs: make(chan uint64, 1000)}
	var err error
	n.Session, _, err = s.Open(ctxb, driver.OpenRequest{Shard: "0", ID: id, TTL: 50 * time.Second, Contended: func(seq uint64) { n.seqs <- seq }})
	must.OK(t, err)
	return n
}

// mustBeContended waits for the notice about a claim.
func (n noticed) mustBeContended(t *testing.T, want uint64) {
	t.Helper()
	for end := time.After(time.Minute); ; {
		select {
		case seq := <-n.seqs:
			if seq == want {
				return
			}
		case <-end:
			t.Fatalf("no notice about claim %d", want)
		}
	}
}

func watched(c *driver.Claim) *driver.Claim {
	c.Watch = true
	return c
}

// TestNoticeMissedWhileNotListening: a claim is queued while the connection of the holder is
// broken. The holder is notified without a renewal.
func TestNoticeMissedWhileNotListening(t *testing.T) {
	t.Parallel()
	server := need(t, postgres)
	b := onPostgres.behind(t, server)
	other := open(t, onPostgres.store(t, onPostgres.connect(t, server.Port), &b.opts))
	holder := openNoticed(t, b)
	attempt(t, holder, watched(plain(1, "x")), driver.Granted)
	attempt(t, holder, watched(plain(2, "y")), driver.Granted)
	attempt(t, other, queued(1, "x"), driver.Queued)
	holder.mustBeContended(t, 1)
	eventually(t, "that it listens", func() bool { return sqlstore.Listening(b.Store) == 1 })
	heal := b.proxy.Stall()
	attempt(t, other, queued(2, "y"), driver.Queued)
	b.proxy.Cut()
	heal()
	holder.mustBeContended(t, 2)
}

// TestWatchAddsNoStatement: watched claims are locked, queued and handed off by as many
// statements as others, and the holder that is handed a lock with waiters is notified by the
// message that hands it off.
func TestWatchAddsNoStatement(t *testing.T) {
	t.Parallel()
	server := need(t, postgres)
	db := onPostgres.connect(t, server.Port)
	opts := onPostgres.space(t, db)
	if _, err := db.Exec("CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err != nil {
		t.Skipf("pg_stat_statements: %v; on Debian: apt-get install postgresql-15", err)
	}
	s := onPostgres.store(t, db, &opts)
	a, b, c := openNoticed(t, s), openNoticed(t, s), open(t, s)
	for name, ss := range map[string]noticed{"a": a, "b": b} {
		attempt(t, ss, watched(plain(1, name)), driver.Granted)
		attempt(t, c, queued(uint64(name[0]), name), driver.Queued)
		ss.mustBeContended(t, 1)
	}
	eventually(t, "that all sessions listen", func() bool { return sqlstore.Listening(s) == 3 })
	seq := uint64(1000)
	ctx, cancel := context.WithTimeout(ctxb, 2*time.Minute)
	defer cancel()
	round := func(prepare func(*driver.Claim) *driver.Claim, noticed func(noticed)) {
		seq++
		attempt(t, a, prepare(plain(seq, "x")), driver.Granted)
		attempt(t, b, prepare(queued(seq, "x")), driver.Queued)
		attempt(t, c, queued(seq, "x"), driver.Queued)
		noticed(a)
		withdraw(t, a, driver.Withdrawal{Seq: seq, Name: "x"}, driver.WasGranted)
		if out, err := b.Await(ctx, queued(seq, "x")); err != nil || out.State != driver.Granted {
			t.Fatalf("the next holder: %+v, %v", out, err)
		}
		noticed(b)
		withdraw(t, b, driver.Withdrawal{Seq: seq, Name: "x"}, driver.WasGranted)
		withdraw(t, c, driver.Withdrawal{Seq: seq, Name: "x"}, driver.WasGranted)
	}
	with := func() { round(watched, func(n noticed) { n.mustBeContended(t, seq) }) }
	without := func() {
		round(func(c *driver.Claim) *driver.Claim { return c }, func(noticed) {})
	}
	with() // its row is made
	count := func(f func()) int64 {
		read := func() (n int64) {
			must.OK(t, db.QueryRow("SELECT COALESCE(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query LIKE '%' || $1 || '%' AND query NOT LIKE '%pg_stat%' AND query NOT LIKE '%fencelock poll%'", opts.Prefix()).Scan(&n))
			return n // how often the next holder polls is a matter of time
		}
		before := read()
		for range 10 {
			f()
		}
		return read() - before
	}
	if n, m := count(with), count(without); n != m {
		t.Errorf("10 rounds were %d statements with Watch and %d without", n, m)
	}
}

// TestHandleWithoutASpareConnection: a process that cannot listen reads what waits behind its
// watched grants by itself, until its session is closed.
func TestHandleWithoutASpareConnection(t *testing.T) {
	t.Parallel()
	server := need(t, postgres)
	db := onPostgres.connect(t, server.Port)
	opts := onPostgres.space(t, db)
	other := open(t, onPostgres.store(t, onPostgres.connect(t, server.Port), &opts))
	db.SetMaxOpenConns(1)
	s := onPostgres.store(t, db, &opts)
	holder := openNoticed(t, s)
	attempt(t, holder, watched(plain(1, "x")), driver.Granted)
	attempt(t, other, queued(1, "x"), driver.Queued)
	holder.mustBeContended(t, 1)
	must.OK(t, holder.Close(ctxb))
	eventually(t, "that the session is not attended to", func() bool { return sqlstore.Attended(s) == 0 })
}

// TestReadersAreNotifiedAtRenewal: on a server without notifications a keep-alive notifies
// each reader that a writer waits for, by one statement for all of them.
func TestReadersAreNotifiedAtRenewal(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		if k.dialect == sqlstore.PostgreSQL {
			opts.Poll = true
		}
		s := k.store(t, db, &opts)
		holder := openNoticed(t, s)
		for seq := uint64(1); seq <= 2; seq++ {
			c := watched(plain(seq, "x"))
			c.Terms.Mode = driver.Shared
			attempt(t, holder, c, driver.Granted)
		}
		attempt(t, holder, watched(plain(3, "y")), driver.Granted)
		other := open(t, s)
		attempt(t, other, queued(1, "x"), driver.Queued)
		if _, err := holder.KeepAlive(ctxb); err != nil {
			t.Fatal(err)
		}
		got := map[uint64]bool{}
		for len(holder.seqs) > 0 {
			got[<-holder.seqs] = true
		}
		if len(got) != 2 || !got[1] || !got[2] {
			t.Errorf("notices about %v, want 1 and 2", got)
		}
	})
}

// TestWatchedAfterTheGrant: a grant that is watched later, by another attempt or by a reclaim
// on a server whose data is older than the watch, has that in its row: the process that
// queues a claim behind it notifies the holder.
func TestWatchedAfterTheGrant(t *testing.T) {
	t.Parallel()
	server := need(t, postgres)
	db := onPostgres.connect(t, server.Port)
	opts := onPostgres.space(t, db)
	s := onPostgres.store(t, db, &opts)
	holder := openNoticed(t, s)
	attempt(t, holder, watched(plain(1, "listens")), driver.Granted)
	eventually(t, "that it listens", func() bool { return sqlstore.Listening(s) == 1 })
	attempt(t, holder, plain(2, "x"), driver.Granted)
	attempt(t, holder, watched(plain(2, "x")), driver.Granted)
	attempt(t, open(t, s), queued(1, "x"), driver.Queued)
	holder.mustBeContended(t, 2)

	out := attempt(t, holder, plain(3, "y"), driver.Granted)
	_, err := db.Exec("UPDATE " + opts.Prefix() + "incarnation SET identity = 'another server'")
	must.OK(t, err)
	again := openNoticedAs(t, s, holder.id)
	kept, err := again.Reclaim(ctxb, []driver.Held{{Claim: *watched(plain(3, "y")), Token: out.Token}}, true)
	if err != nil || len(kept) != 1 || !kept[0] {
		t.Fatalf("the reclaim: %v, %v", kept, err)
	}
	eventually(t, "that it listens again", func() bool { return sqlstore.ListensAs(s, again.Session) })
	attempt(t, open(t, s), queued(1, "y"), driver.Queued)
	again.mustBeContended(t, 3)
}

// TestSlowNoticeDoesNotMakeARenewalLate: while the statement that reads what waits is not
// answered, a keep-alive that succeeded returns before its context ends.
func TestSlowNoticeDoesNotMakeARenewalLate(t *testing.T) {
	t.Parallel()
	server := need(t, onMariaDB.start)
	b := onMariaDB.behind(t, server)
	holder := openNoticed(t, b)
	attempt(t, holder, watched(plain(1, "x")), driver.Granted)
	heal, asked := make(chan struct{}), make(chan struct{})
	healed, ask := sync.OnceFunc(func() { close(heal) }), sync.OnceFunc(func() { close(asked) })
	t.Cleanup(healed)
	b.proxy.Filter(func(_ int, toServer bool, data []byte) bool {
		if toServer && bytes.Contains(data, []byte("fencelock waited")) {
			ask()
			<-heal
		}
		return true
	})
	ctx, cancel := context.WithTimeout(ctxb, 4*time.Second) // less than a notice may take anyway
	defer cancel()
	if _, err := holder.KeepAlive(ctx); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Error("the keep-alive returned after its context had ended")
	}
	soon(t, "the statement that reads what waits", asked)
}

// TestWatchedGrantsAreReclaimedManyAtOnce: after a failover, watched grants whose rows survived
// with the watch are not reclaimed by statements for each of them.
func TestWatchedGrantsAreReclaimedManyAtOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		const grants = 30
		b := k.behind(t, server)
		holder := openNoticed(t, b)
		var held []driver.Held
		for seq := uint64(1); seq <= grants; seq++ {
			c := watched(plain(seq, fmt.Sprint("x", seq)))
			held = append(held, driver.Held{Claim: *c, Token: attempt(t, holder, c, driver.Granted).Token})
		}
		must.OK(t, exec(k.connect(t, server.Port), "UPDATE "+b.opts.Prefix()+"incarnation SET identity = 'another server'"))
		again := openNoticedAs(t, b, holder.id)
		var requests atomic.Int64
		b.proxy.Filter(func(_ int, toServer bool, _ []byte) bool {
			if toServer {
				requests.Add(1)
			}
			return true
		})
		kept, err := again.Reclaim(ctxb, held, true)
		if err != nil || len(kept) != grants || slices.Contains(kept, false) {
			t.Fatalf("the reclaim: %v, %v", kept, err)
		}
		if n := requests.Load(); n >= grants { // a load and a write for each are twice as many
			t.Errorf("%d requests for %d grants", n, grants)
		}
	})
}
