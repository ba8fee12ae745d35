// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// leap is how far the server's clock is ahead for a moment.
const leap = 365 * 24 * time.Hour

// TestClockAheadForAMoment: what ends a lock is written while the server's clock is a year
// ahead, then the clock is corrected. The lock is free soon, not in a year.
func TestClockAheadForAMoment(t *testing.T) {
	t.Parallel()
	server := redistest.StartStepped(t)
	store := libraries[0].open(t, login{addr: server.Addr}, nil).Store
	ctx := t.Context()
	const short, long = time.Second, time.Minute
	open := func(ttl time.Duration) driver.Session {
		t.Helper()
		d, _, err := store.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range st.Holders {
			if h.EndsIn > short || h.Age < 0 {
				t.Errorf("%s: it is shown for another %v, since %v", name, h.EndsIn, h.Age)
			}
		}
	}
	for _, name := range names {
		waitFor(t, name+": it is free", func() bool {
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
	opts := &redisstore.Options{MaxTTL: 2 * time.Second, Grace: true}
	store := libraries[0].open(t, login{addr: server.Addr}, opts).Store
	server.SetClock(leap)
	if _, err := anOpen(t, store); err != nil {
		t.Fatal(err)
	}
	server.SetClock(0)
	st, err := store.Inspect(t.Context(), "x")
	if err != nil || st.Grace > opts.MaxTTL+time.Millisecond {
		t.Errorf("got a grace of %v, %v, want at most %v", st.Grace, err, opts.MaxTTL)
	}
	waitFor(t, "the grace is over", func() bool {
		st, err := store.Inspect(t.Context(), "x")
		return err == nil && st.Grace == 0
	})
}
