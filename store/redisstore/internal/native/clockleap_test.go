// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// leap is how far the server's clock is ahead for a moment.
const leap = 365 * 24 * time.Hour

// TestClockAheadForAMoment: what ends a lock is written while the server's clock is a year
// ahead, then the clock is corrected. The lock is free soon, not in a year.
func TestClockAheadForAMoment(t *testing.T) {
	t.Parallel()
	server := redistest.StartStepped(t)
	store := libraries[0].open(t, login{Addr: server.Addr}, nil).Store
	ctx := t.Context()
	const short, long = time.Second, time.Minute
	open := func(ttl time.Duration) driver.Session {
		t.Helper()
		d, _, err := store.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: ttl})
		must.OK(t, err)
		return d
	}
	lock := func(d driver.Session, name string, terms driver.Terms) {
		t.Helper()
		terms.Weight, terms.Record = 1, &driver.Record{}
		out, err := d.Attempt(ctx, &driver.Claim{Seq: 1, Name: name, Terms: &terms})
		if err != nil || out.State != driver.Granted {
			t.Fatalf("%s: got %v, %v", name, out.State, err)
		}
	}
	server.SetClock(leap)
	lock(open(short), "the session ends", driver.Terms{})
	holds, kept, least := open(long), open(long), open(long)
	lock(holds, "MaxHold", driver.Terms{MaxHold: short})
	lock(kept, "KeepFor", driver.Terms{})
	if _, err := kept.Withdraw(ctx, driver.Withdrawal{Seq: 1, Name: "KeepFor", KeepFor: short}); err != nil {
		t.Fatal(err)
	}
	lock(least, "MinHold", driver.Terms{MinHold: short})
	if _, err := least.Withdraw(ctx, driver.Withdrawal{Seq: 1, Name: "MinHold"}); err != nil {
		t.Fatal(err)
	}
	later := open(long)
	lock(later, "MinHold, later", driver.Terms{MinHold: short})
	server.SetClock(0)
	if _, err := later.Withdraw(ctx, driver.Withdrawal{Seq: 1, Name: "MinHold, later"}); err != nil {
		t.Fatal(err)
	}
	names := []string{"the session ends", "MaxHold", "KeepFor", "MinHold", "MinHold, later"}
	for _, name := range names {
		st, err := store.Inspect(ctx, name)
		must.OK(t, err)
		for _, h := range st.Holders {
			if h.EndsIn > short || h.Age < 0 {
				t.Errorf("%s: it is shown for another %v, since %v", name, h.EndsIn, h.Age)
			}
		}
	}
	for _, name := range names {
		redistest.WaitFor(t, name+": it is free", func() bool {
			st, err := store.Inspect(ctx, name)
			return err == nil && len(st.Holders) == 0
		})
	}
}

// TestGraceOfAClockAhead: an incarnation that begins while the clock is a year ahead rests
// for one MaxTTL after the clock is corrected, not for a year.
func TestGraceOfAClockAhead(t *testing.T) {
	t.Parallel()
	server := redistest.StartStepped(t)
	opts := &native.Options{MaxTTL: 2 * time.Second, Grace: true}
	store := libraries[0].open(t, login{Addr: server.Addr}, opts).Store
	server.SetClock(leap)
	if _, err := anOpen(t, store); err != nil {
		t.Fatal(err)
	}
	server.SetClock(0)
	st, err := store.Inspect(t.Context(), "x")
	if err != nil || st.Grace > opts.MaxTTL+time.Millisecond {
		t.Errorf("got a grace of %v, %v, want at most %v", st.Grace, err, opts.MaxTTL)
	}
	redistest.WaitFor(t, "the grace is over", func() bool {
		st, err := store.Inspect(t.Context(), "x")
		return err == nil && st.Grace == 0
	})
}

// TestTokensRiseWhenTheClockIsBehind: with grace, tokens rise through a data loss if the clock
// of the new server is behind by less than MaxTTL: behind the clock of the server before it, or
// of another node of a quorum whose tokens the server had to exceed. A server that kept its
// data continues its counter, however far its clock is behind.
func TestTokensRiseWhenTheClockIsBehind(t *testing.T) {
	const less = 58 * time.Second // than MaxTTL
	grace := native.Options{MaxTTL: time.Minute, Grace: true}
	flush := func(server *redistest.Server) { server.Do("FLUSHALL") }
	for name, c := range map[string]struct {
		opts   native.Options
		behind time.Duration // of the new server
		node   time.Duration // how far another node is ahead, or 0
		lose   func(server *redistest.Server)
	}{
		"no data, grace":                   {grace, less, 0, flush},
		"no data, grace, node of a quorum": {grace, 0, less, flush},
		"all data": {native.Options{MaxTTL: time.Minute}, time.Hour, 0,
			func(server *redistest.Server) { server.Do("SAVE"); server.Restart() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartStepped(t)
			first, ahead := firstToken(t, server, c.behind, &c.opts, c.node)
			c.lose(server)
			if next, _ := firstToken(t, server, ahead-c.behind, &c.opts, 0); next <= first {
				t.Errorf("token %v after %v", next, first)
			}
		})
	}
}

// firstToken sets the clock, makes the server begin an incarnation, moves the clock to the end
// of a grace period, and locks. It returns the token and how far the clock is ahead by then. If
// node is not 0, the token is one that a node with a clock so much further ahead would give.
func firstToken(t *testing.T, server *redistest.Server, ahead time.Duration, opts *native.Options, node time.Duration) (driver.Token, time.Duration) {
	t.Helper()
	server.SetClock(ahead)
	store := libraries[0].open(t, login{Addr: server.Addr}, opts).Store
	if _, err := anOpen(t, store); err != nil {
		t.Fatal(err)
	}
	if opts.Grace {
		ahead += opts.MaxTTL + time.Second
		server.SetClock(ahead)
	}
	session, err := anOpen(t, store)
	must.OK(t, err)
	claim := &driver.Claim{Seq: 1, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
	if node != 0 {
		claim.Floor = driver.Token(time.Now().Add(ahead+node).UnixMicro()) * driver.TokenStep
	}
	out, err := session.Attempt(t.Context(), claim)
	if err != nil || out.State != driver.Granted {
		t.Fatalf("got %+v, %v", out, err)
	}
	if _, err := session.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"}); err != nil {
		t.Fatal(err)
	}
	return out.Token, ahead
}
