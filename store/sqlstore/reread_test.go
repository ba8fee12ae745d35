// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// openFor opens a session.
func openFor(t *testing.T, s driver.Store, ttl time.Duration) driver.Session {
	t.Helper()
	ss, _, err := s.Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: ttl})
	must.OK(t, err)
	return ss
}

// TestAttemptAfterAKeepAliveIsNoStatement: a claim that waits is attempted again in time. The keep-alive before has read whether the
// holder lives and the lock has not changed hands, so the attempt sends nothing. It does if it comes early,
// because its caller wants to know something new, and without such a keep-alive.
func TestAttemptAfterAKeepAliveIsNoStatement(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		holder, first, waiter, sent := k.behindAHolder(t, server)
		const ttl = 3 * time.Second
		ss := openFor(t, waiter, ttl)
		before := attempt(t, ss, queued(1, "x"), driver.Queued)
		keepAlive := func() {
			t.Helper()
			_, err := ss.KeepAlive(ctxb)
			must.OK(t, err)
		}
		keepAlive()
		sent()
		attempt(t, ss, queued(1, "x"), driver.Queued)
		if sent() == 0 {
			t.Error("an attempt that comes early has sent nothing")
		}
		end := time.Now().Add(ttl)
		for time.Now().Before(end) {
			keepAlive()
			time.Sleep(ttl / 6)
		}
		keepAlive()
		sent()
		again := attempt(t, ss, queued(1, "x"), driver.Queued)
		if n := sent(); n != 0 || again.Position != before.Position || len(again.Holders) != 1 || again.Holders[0].Token != before.Holders[0].Token ||
			again.PollAfter <= 0 || again.PollAfter > before.PollAfter {
			t.Errorf("the attempt has sent %d requests and returned %+v; want none, and as before %+v", n, again, before)
		}
		withdraw(t, holder, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		withdraw(t, first, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		keepAlive()
		attempt(t, ss, queued(1, "x"), driver.Granted)
	})
}

// behindAHolder returns a session that holds x, one that is the first in its queue, and a store of another process with what counts its
// requests since the last call.
func (k kind) behindAHolder(t *testing.T, server *servers.Server) (holder, first driver.Session, s *sqlstore.Store, sent func() int64) {
	t.Helper()
	db := k.connect(t, server.Port)
	opts := k.space(t, db)
	holder, first = open(t, k.store(t, db, &opts)), open(t, k.store(t, db, &opts))
	attempt(t, holder, plain(1, "x"), driver.Granted)
	attempt(t, first, queued(1, "x"), driver.Queued)
	p := proxyOf(t, server)
	var n atomic.Int64
	p.Filter(func(_ int, toServer bool, _ []byte) bool {
		if toServer {
			n.Add(1)
		}
		return true
	})
	through := k.connect(t, p.Port)
	through.SetMaxOpenConns(1) // it neither listens nor has a handoff lock
	return holder, first, k.store(t, through, &opts), func() int64 { return n.Swap(0) }
}

// TestHolderThatDiesBesideKeepAlives: keep-alives of a claim that waits do not hide that its holder, and the claim between them, are
// not kept alive.
func TestHolderThatDiesBesideKeepAlives(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		const ttl = time.Second
		attempt(t, openFor(t, k.store(t, db, &opts), ttl), plain(1, "x"), driver.Granted)
		attempt(t, openFor(t, k.store(t, db, &opts), ttl), queued(1, "x"), driver.Queued)
		ss := openFor(t, k.store(t, k.connect(t, server.Port), &opts), 4*ttl)
		attempt(t, ss, queued(1, "x"), driver.Queued)
		for range 3 {
			_, err := ss.KeepAlive(ctxb)
			must.OK(t, err)
			time.Sleep(ttl / 4)
		}
		time.Sleep(ttl)
		attempt(t, ss, queued(1, "x"), driver.Granted)
	})
}

// TestKeepAliveFindsAMissedGrant: a process that notifies no other passes the lock on. The next keep-alive of
// the waiter's session finds the grant.
func TestKeepAliveFindsAMissedGrant(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		quiet := opts
		quiet.Poll = true
		holder := open(t, k.store(t, db, &quiet))
		attempt(t, holder, plain(1, "x"), driver.Granted)
		const ttl = 3 * time.Second
		ss := openFor(t, k.store(t, k.connect(t, server.Port), &opts), ttl)
		attempt(t, ss, queued(1, "x"), driver.Queued)
		a := await(t, ss, "x")
		time.Sleep(ttl / 2)
		_, err := ss.KeepAlive(ctxb)
		must.OK(t, err)
		withdraw(t, holder, driver.Withdrawal{Seq: 1, Name: "x"}, driver.WasGranted)
		_, err = ss.KeepAlive(ctxb)
		must.OK(t, err)
		a.granted(t)
	})
}

// TestKeepAliveBesideALockedTable: another program locks the table of the locks, as for its
// maintenance. A session with a claim that waits is kept alive nevertheless.
func TestKeepAliveBesideALockedTable(t *testing.T) {
	t.Parallel()
	k := onPostgres
	server := need(t, k.start)
	db := k.connect(t, server.Port)
	opts := k.space(t, db)
	attempt(t, open(t, k.store(t, db, &opts)), plain(1, "x"), driver.Granted)
	ss := openFor(t, k.store(t, k.connect(t, server.Port), &opts), 3*time.Second)
	attempt(t, ss, queued(1, "x"), driver.Queued)
	tx, err := db.Begin()
	must.OK(t, err)
	defer tx.Rollback()
	_, err = tx.Exec("LOCK TABLE " + opts.Prefix() + "lock")
	must.OK(t, err)
	for range 2 {
		if _, err := ss.KeepAlive(ctxb); err != nil {
			t.Errorf("keep-alive: %v", err)
		}
	}
}

// TestKeepAliveOfAClaimThatIsNotQueued: a crash of the server has lost the place of a claim in the queue. It is queued again.
func TestKeepAliveOfAClaimThatIsNotQueued(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		s := k.store(t, db, &opts)
		attempt(t, open(t, s), plain(1, "x"), driver.Granted)
		attempt(t, open(t, s), queued(1, "x"), driver.Queued)
		const ttl = 2 * time.Second
		ss := openFor(t, k.store(t, k.connect(t, server.Port), &opts), ttl)
		attempt(t, ss, queued(1, "x"), driver.Queued)
		shorter := "JSON_REMOVE(queue, '$[1]')"
		if k.dialect == sqlstore.PostgreSQL {
			shorter = "queue - 1"
		}
		must.OK(t, exec(db, "UPDATE "+opts.Prefix()+"lock SET queue = "+shorter))
		for range 7 {
			_, err := ss.KeepAlive(ctxb)
			must.OK(t, err)
			time.Sleep(ttl / 6)
		}
		attempt(t, ss, queued(1, "x"), driver.Queued)
		if st, err := s.Inspect(ctxb, "x"); err != nil || st.Waiting != 2 {
			t.Errorf("%+v, %v; want two claims that wait", st, err)
		}
	})
}

// TestFirstClaimLearnsWhenItsHolderEnds: the holder was kept alive after the keep-alive of the first in the queue. An attempt says
// when the holder ends now: until then another one is worth nothing.
func TestFirstClaimLearnsWhenItsHolderEnds(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		db := k.connect(t, server.Port)
		opts := k.space(t, db)
		const ttl = 6 * time.Second
		holder := openFor(t, k.store(t, db, &opts), ttl)
		attempt(t, holder, plain(1, "x"), driver.Granted)
		ss := openFor(t, k.store(t, k.connect(t, server.Port), &opts), ttl/6)
		attempt(t, ss, queued(1, "x"), driver.Queued)
		for range 8 {
			_, err := ss.KeepAlive(ctxb)
			must.OK(t, err)
			time.Sleep(ttl / 6 / 6)
		}
		_, err := holder.KeepAlive(ctxb)
		must.OK(t, err)
		if out := attempt(t, ss, queued(1, "x"), driver.Queued); out.PollAfter < ttl-ttl/12 {
			t.Errorf("the holder, which was just kept alive, ends in %v", out.PollAfter)
		}
	})
}
