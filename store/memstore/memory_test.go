// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

// open starts a session on the store's only shard.
func open(t *testing.T, s *Store) driver.Session {
	t.Helper()
	sess, _, err := s.Open(context.Background(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute})
	must.OK(t, err)
	return sess
}

func claim(seq uint64, name string) *driver.Claim {
	return &driver.Claim{Seq: seq, Name: name, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
}

// attempt must be answered with the state.
func attempt(t *testing.T, s driver.Session, c *driver.Claim, want driver.State) driver.Outcome {
	t.Helper()
	out, err := s.Attempt(context.Background(), c)
	if err != nil || out.State != want {
		t.Fatalf("attempt %d of %q: %v, %v; want %v", c.Seq, c.Name, out.State, err, want)
	}
	return out
}

func withdraw(t *testing.T, s driver.Session, c *driver.Claim) {
	t.Helper()
	if _, err := s.Withdraw(context.Background(), driver.Withdrawal{Seq: c.Seq, Name: c.Name}); err != nil {
		t.Fatal(err)
	}
}

// TestFreeLocksTakeNoMemory: what was locked, waited for, expired and broken leaves
// nothing in the maps of the store once it is withdrawn.
func TestFreeLocksTakeNoMemory(t *testing.T) {
	now := time.Now()
	store := New(&Options{Now: func() time.Time { return now }})
	a, b := open(t, store), open(t, store)

	held, queued := claim(1, "held"), claim(1, "held")
	queued.Queue = true
	attempt(t, a, held, driver.Granted)
	attempt(t, b, queued, driver.Queued)
	withdraw(t, b, queued)
	withdraw(t, a, held)

	spent := claim(2, "spent")
	spent.Terms.MaxHold = time.Second
	attempt(t, a, spent, driver.Granted)
	now = now.Add(2 * time.Second)
	attempt(t, a, spent, driver.Absent)
	withdraw(t, a, spent)

	broken := claim(3, "broken")
	if _, err := store.Break(context.Background(), "broken", attempt(t, a, broken, driver.Granted).Token); err != nil {
		t.Fatal(err)
	}
	withdraw(t, a, broken)

	if _, err := store.Inspect(context.Background(), "never used"); err != nil {
		t.Fatal(err)
	}
	sh := store.shards[0]
	if n := len(sh.locks); n != 0 {
		t.Errorf("%d free locks are kept", n)
	}
	for _, l := range sh.sessions {
		if n := len(l.claims) + len(l.tombstoned) + len(l.spent) + len(l.broken); n != 0 {
			t.Errorf("a session without claims keeps %+v", l)
		}
	}
}

// TestTokensStayAboveAReclaimedOne: the token that comes back may be ahead of the
// clock that the new incarnation's counter was seeded with, if another node's clock
// gave it.
func TestTokensStayAboveAReclaimedOne(t *testing.T) {
	now := time.Now()
	store := New(&Options{Grace: true, Now: func() time.Time { return now }})
	req := driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute}
	s, _, err := store.Open(context.Background(), req)
	must.OK(t, err)
	c := claim(1, "x")
	c.Floor = driver.Token(now.Add(24*time.Hour).UnixMicro() * driver.TokenStep)
	token := attempt(t, s, c, driver.Granted).Token
	store.Reset()
	if s, _, err = store.Open(context.Background(), req); err != nil {
		t.Fatal(err)
	}
	if kept, err := s.Reclaim(context.Background(), []driver.Held{{Claim: *c, Token: token}}, true); err != nil || !kept[0] {
		t.Fatalf("reclaimed: %v, %v", kept, err)
	}
	now = now.Add(DefaultMaxTTL)
	s = open(t, store)
	withdraw(t, s, c) // another session's: touches nothing
	next := claim(2, "y")
	if got := attempt(t, s, next, driver.Granted).Token; got <= token {
		t.Errorf("the next token is %v, want one above the reclaimed %v", got, token)
	}
}

// TestTokensRiseOverLossesAtOneInstant: in fake time a store can lose its data twice
// at one instant and grant in between. The clock alone would seed the same tokens.
func TestTokensRiseOverLossesAtOneInstant(t *testing.T) {
	now := time.Now()
	store := New(&Options{Now: func() time.Time { return now }})
	var last driver.Token
	grant := func(times int) {
		t.Helper()
		for range times {
			s, c := open(t, store), claim(1, "x")
			token := attempt(t, s, c, driver.Granted).Token
			if token <= last {
				t.Fatalf("token %v after %v", token, last)
			}
			last = token
			withdraw(t, s, c)
		}
	}
	grant(1)
	for range 3 {
		store.Reset()
		grant(3)
		older := store.Snapshot()
		grant(2)
		store.Restore(older)
		grant(1)
		store.Restart()
		grant(2)
		now = now.Add(time.Microsecond) // less than the grants would need
	}
}

// TestLossKeepsNoCounter: memstore stands for servers that know only their clock after a
// data loss. A floor from another clock, or a clock that was set back, shows.
func TestLossKeepsNoCounter(t *testing.T) {
	now := time.Now()
	store := New(&Options{Now: func() time.Time { return now }})
	store.Reset()
	high := claim(1, "x")
	high.Floor = driver.Token(now.Add(time.Hour).UnixMicro() * driver.TokenStep)
	attempt(t, open(t, store), high, driver.Granted)
	for _, step := range []time.Duration{0, -time.Minute} {
		now = now.Add(step)
		store.Reset()
		token := attempt(t, open(t, store), claim(1, "x"), driver.Granted).Token
		if got := time.UnixMicro(int64(token) / driver.TokenStep).Sub(now); got < 0 || got > time.Millisecond {
			t.Errorf("after a step of %v the token is %v ahead of the clock", step, got)
		}
	}
}

// TestAwaitHearsOfARestart: a waiter learns of a new incarnation by the push that it
// waits for, not by its next poll.
func TestAwaitHearsOfARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := New(nil)
		a, b := open(t, store), open(t, store)
		attempt(t, a, claim(1, "x"), driver.Granted)
		queued := claim(1, "x")
		queued.Queue = true
		attempt(t, b, queued, driver.Queued)
		began := time.Now()
		time.AfterFunc(time.Second, store.Restart)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := b.Await(ctx, queued); !errors.Is(err, driver.ErrReset) || time.Since(began) != time.Second {
			t.Errorf("Await returned %v after %v, want ErrReset with the restart", err, time.Since(began))
		}
	})
}

// TestClaimAttemptedAgainAfterABreakIsWithdrawn: an attempt that arrives after its claim
// was broken and withdrawn may be granted. The next withdrawal must remove that grant; the
// mark of the break must not hide it.
func TestClaimAttemptedAgainAfterABreakIsWithdrawn(t *testing.T) {
	ctx := t.Context()
	s := New(nil)
	sess, c := open(t, s), claim(1, "a")
	withdrawn := func(want driver.Removed) {
		t.Helper()
		if got, err := sess.Withdraw(ctx, driver.Withdrawal{Seq: 1, Name: "a"}); err != nil || got != want {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
	}
	out := attempt(t, sess, c, driver.Granted)
	if _, err := s.Break(ctx, "a", out.Token); err != nil {
		t.Fatal(err)
	}
	withdrawn(driver.WasBroken)
	attempt(t, sess, c, driver.Granted)
	withdrawn(driver.WasGranted)
	if st, err := s.Inspect(ctx, "a"); err != nil || len(st.Holders) != 0 {
		t.Errorf("it is still held: %+v, %v", st, err)
	}
}

// TestGrantWithAnotherTokenIsDropped: the data is older than the token of a grant, so the
// grant is not given back. The last Reclaim must drop it: no process would withdraw it.
func TestGrantWithAnotherTokenIsDropped(t *testing.T) {
	ctx := t.Context()
	s := New(nil)
	id := driver.NewSessionID()
	sess := openAs(t, s, id)
	c := claim(1, "a")
	old := attempt(t, sess, c, driver.Granted).Token
	snap := s.Snapshot()
	lifted := *c
	lifted.Floor, lifted.Lift = old+driver.TokenStep, true
	token := attempt(t, sess, &lifted, driver.Granted).Token
	if token <= old {
		t.Fatalf("token %v after %v", token, old)
	}
	s.Restore(snap)
	sess = openAs(t, s, id)
	if kept, err := sess.Reclaim(ctx, []driver.Held{{Claim: *c, Token: token}}, true); err != nil || kept[0] {
		t.Fatalf("the grant with another token is kept %v, %v", kept, err)
	}
	if st, err := s.Inspect(ctx, "a"); err != nil || len(st.Holders) != 0 {
		t.Errorf("it is still held: %+v, %v", st, err)
	}
}

func openAs(t *testing.T, s *Store, id driver.SessionID) driver.Session {
	t.Helper()
	sess, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("a"), ID: id, TTL: time.Minute})
	must.OK(t, err)
	return sess
}
