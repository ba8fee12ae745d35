// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// named counts the named locks that a server has. Tests run side by side, so it counts those
// of one session.
func named(t *testing.T, k kind, db *sql.DB, id driver.SessionID, seq uint64) (n int) {
	t.Helper()
	if k.dialect == sqlstore.PostgreSQL {
		key := uint64(sqlstore.BellKey(id, seq))
		must(t, db.QueryRow("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = 'ExclusiveLock' AND classid::bigint = $1 AND objid::bigint = $2",
			int64(key>>32), int64(key&0xffffffff)).Scan(&n))
		return n
	}
	must(t, db.QueryRow("SELECT IF(IS_FREE_LOCK(?), 0, 1)", sqlstore.BellName(id, seq)).Scan(&n))
	return n
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come true", what)
		}
	}
}

func queued(seq uint64, name string) *driver.Claim {
	c := plain(seq, name)
	c.Queue = true
	return c
}

// crowd is three sessions, each with its own handle: the first holds the lock, the others
// wait, the third for the bell of the second.
type crowd struct {
	ids      []driver.SessionID
	sessions []driver.Session
	dbs      []*sql.DB
}

func newCrowd(t *testing.T, k kind, server *servers.Server, opts *sqlstore.Options) *crowd {
	t.Helper()
	c := &crowd{}
	for i := range 3 {
		db := k.connect(t, server.Port)
		id := driver.NewSessionID()
		ss, _, err := k.store(t, db, opts).Open(ctxb, driver.OpenRequest{Shard: "0", ID: id, TTL: 50 * time.Second})
		must(t, err)
		out, err := ss.Attempt(ctxb, queued(1, "x"))
		must(t, err)
		if want := driver.Queued; i > 0 && (out.State != want || out.Position != i-1 || len(out.Holders) != 1) {
			t.Fatalf("claim %d is %+v, want it queued at %d behind one holder", i, out, i-1)
		}
		c.ids, c.sessions, c.dbs = append(c.ids, id), append(c.sessions, ss), append(c.dbs, db)
	}
	return c
}

// await waits for the grant of a session's claim, as the core does.
func (c *crowd) await(i int) (driver.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctxb, time.Minute)
	defer cancel()
	for {
		out, err := c.sessions[i].Await(ctx, queued(1, "x"))
		if err != nil || out.State == driver.Granted {
			return out, err
		}
		if out, err = c.sessions[i].Attempt(ctx, queued(1, "x")); err != nil || out.State == driver.Granted {
			return out, err
		}
	}
}

// TestQueuedClaimHasABellUntilItIsGone: from when it is queued, while it holds the lock, until
// it is released or withdrawn.
func TestQueuedClaimHasABellUntilItIsGone(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		admin := k.connect(t, server.Port)
		opts := k.space(t, admin)
		c := newCrowd(t, k, server, &opts)
		bells := func(i int) int { return named(t, k, admin, c.ids[i], 1) }
		if bells(0) != 0 || bells(1) != 1 || bells(2) != 1 {
			t.Fatalf("bells: %d of the holder, %d and %d of the waiters; want 0, 1, 1", bells(0), bells(1), bells(2))
		}
		if _, err := c.sessions[0].Withdraw(ctxb, driver.Withdrawal{Seq: 1, Name: "x"}); err != nil {
			t.Fatal(err)
		}
		out, err := c.await(1)
		must(t, err)
		if bells(1) != 1 {
			t.Error("the holder has lost its bell")
		}
		if found, err := c.sessions[1].Withdraw(ctxb, driver.Withdrawal{Seq: 1, Name: "x"}); err != nil || found != driver.WasGranted {
			t.Fatalf("release: %v, %v", found, err)
		}
		next, err := c.await(2)
		if err != nil || next.Token <= out.Token {
			t.Fatalf("the next holder has %v, %v, after token %v", next.Token, err, out.Token)
		}
		must(t, c.sessions[2].Close(ctxb))
		eventually(t, "that no bell is left", func() bool { return bells(1) == 0 && bells(2) == 0 })
	})
}

// TestBellOfAWithdrawnClaim: a claim in the middle of the queue is given up. The claim behind it
// waits for the holder then, and is granted.
func TestBellOfAWithdrawnClaim(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		admin := k.connect(t, server.Port)
		opts := k.space(t, admin)
		c := newCrowd(t, k, server, &opts)
		for _, w := range []driver.Withdrawal{{Seq: 1, Name: "x", Tombstone: true}, {Seq: 1, Name: "x"}} {
			found, err := c.sessions[1].Withdraw(ctxb, w)
			if want := map[bool]driver.Removed{true: driver.WasQueued, false: driver.WasAbsent}[w.Tombstone]; err != nil || found != want {
				t.Fatalf("withdrawal %+v: %v, %v, want %v", w, found, err, want)
			}
		}
		eventually(t, "that its bell is free", func() bool { return named(t, k, admin, c.ids[1], 1) == 0 })
		if out, err := c.sessions[1].Attempt(ctxb, queued(1, "x")); err != nil || out.State != driver.Absent {
			t.Errorf("the tombstoned claim came again: %+v, %v", out, err)
		}
		_, err := c.sessions[0].Withdraw(ctxb, driver.Withdrawal{Seq: 1, Name: "x"})
		must(t, err)
		if out, err := c.await(2); err != nil || out.State != driver.Granted {
			t.Errorf("the claim behind it: %+v, %v", out, err)
		}
	})
}

// TestBellOfALostConnection: the connections of the claim in front break, and so its bell
// is free. Who waits for it is not granted anything by that, and loses nothing.
func TestBellOfALostConnection(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		admin := k.connect(t, server.Port)
		opts := k.space(t, admin)
		c := newCrowd(t, k, server, &opts)
		got := make(chan driver.Outcome, 1)
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			out, err := c.await(2)
			if err != nil {
				t.Error(err)
			}
			got <- out
		})
		sqlstore.LoseBells(ctxb, c.sessions[1])
		eventually(t, "that the bell is free", func() bool { return named(t, k, admin, c.ids[1], 1) == 0 })
		st, err := k.store(t, admin, &opts).Inspect(ctxb, "x")
		if err != nil || len(st.Holders) != 1 || st.Waiting != 2 {
			t.Fatalf("got %+v, %v; want one holder and two waiters", st, err)
		}
		for i := range 2 {
			if i == 1 {
				if _, err := c.await(1); err != nil {
					t.Fatal(err)
				}
			}
			found, err := c.sessions[i].Withdraw(ctxb, driver.Withdrawal{Seq: 1, Name: "x"})
			if err != nil || found != driver.WasGranted {
				t.Fatalf("release of %d: %v, %v", i, found, err)
			}
		}
		if out := <-got; out.State != driver.Granted {
			t.Errorf("the last one got %+v", out)
		}
	})
}

// TestNoBellsWithPoll: Options.Poll takes no connection and no named lock.
func TestNoBellsWithPoll(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		admin := k.connect(t, server.Port)
		k.opts.Poll = true
		opts := k.space(t, admin)
		c := newCrowd(t, k, server, &opts)
		if n := named(t, k, admin, c.ids[1], 1); n != 0 {
			t.Errorf("a claim that polls has %d named locks", n)
		}
		_, err := c.sessions[0].Withdraw(ctxb, driver.Withdrawal{Seq: 1, Name: "x"})
		must(t, err)
		if out, err := c.await(1); err != nil || out.State != driver.Granted {
			t.Errorf("the next one: %+v, %v", out, err)
		}
	})
}

// TestManyLeaveAtOnce: waiters that give up at the same moment do not hinder each other, and
// leave nothing behind.
func TestManyLeaveAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		admin := k.connect(t, server.Port)
		opts := k.space(t, admin)
		s := k.store(t, k.connect(t, server.Port), &opts)
		holder := lock(t, client(t, s, 50*time.Second), "x")
		ctx, giveUp := context.WithCancel(ctxb)
		const waiters = 12
		var wg sync.WaitGroup
		for range waiters {
			c := client(t, k.store(t, k.connect(t, server.Port), &opts), 50*time.Second)
			wg.Go(func() {
				if l, err := c.Mutex("x").Lock(ctx); err == nil {
					t.Errorf("granted: %v", l)
				}
			})
		}
		waiting := func(n int) func() bool {
			return func() bool {
				st, err := s.Inspect(ctxb, "x")
				must(t, err)
				return st.Waiting == n && len(st.Holders) == 1
			}
		}
		eventually(t, "that all wait", waiting(waiters))
		giveUp()
		wg.Wait()
		eventually(t, "that none waits", waiting(0))
		must(t, holder.Unlock(ctxb))
		next := lock(t, client(t, s, 50*time.Second), "x")
		if next.Token() <= holder.Token() {
			t.Errorf("token %v after %v", next.Token(), holder.Token())
		}
	})
}
