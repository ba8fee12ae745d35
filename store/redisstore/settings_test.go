// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// anOpen opens a session for a while, and returns it with the error.
func anOpen(t *testing.T, s Store) (driver.Session, error) {
	t.Helper()
	d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 2 * time.Second})
	return d, err
}

// wantRefused fails unless an error refuses a session for its settings, and names these.
func wantRefused(t *testing.T, when string, err error, names string) {
	t.Helper()
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), names) {
		t.Errorf("%s: got %v, want it refused with %q", when, err, names)
	}
}

// TestSettingsSurviveARestart: the first process that comes after a restart does not
// replace the settings that all others agreed on, and holders keep their leases.
func TestSettingsSurviveARestart(t *testing.T) {
	t.Parallel()
	server := redistest.Redis.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	dial := func(opts *redisstore.Options) Store {
		return libraries[0].open(t, login{addr: server.Addr}, opts).Store
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store := dial(&redisstore.Options{Grace: true, MaxTTL: 3 * time.Second})
	fleet, err := fencelock.New(store, &fencelock.Options{TTL: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer fleet.Close(context.Background())
	held, err := fleet.Mutex("x").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	other := dial(nil)
	_, err = anOpen(t, other)
	wantRefused(t, "before the restart", err, "add max_ttl=3s&grace=true to the URL (Options{MaxTTL: 3s, Grace: true})")
	server.Restart()
	waitFor(t, "the server answers the other process", func() bool {
		_, err := other.Inspect(ctx, "x")
		return err == nil
	})
	_, err = anOpen(t, other)
	wantRefused(t, "after the restart", err, "max_ttl=3s&grace=true")
	raw, err := server.Do("HGET", "fencelock:{fencelock:0}", "m").Text()
	if err != nil || !strings.Contains(raw, "maxttl=3s grace=true") {
		t.Errorf("the marker is %q, %v; want the settings that it had", raw, err)
	}
	if _, err := fleet.Mutex("y").Lock(ctx); err != nil { // after the grace, and after keep-alives
		t.Errorf("the next lock: %v", err)
	}
	if err := held.Err(); err != nil {
		t.Errorf("the lease was lost: %v", err)
	}
}

// TestOtherSettingsCannotEndAGrace: a server comes back without a lock that is held. A
// process without grace, which was refused before, gets nothing.
func TestOtherSettingsCannotEndAGrace(t *testing.T) {
	t.Parallel()
	server := redistest.Redis.Start(t)
	dial := func(grace bool) Store {
		return libraries[0].open(t, login{addr: server.Addr}, &redisstore.Options{Grace: grace, MaxTTL: 3 * time.Second}).Store
	}
	store, other := dial(true), dial(false)
	holder, err := anOpen(t, store)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Do("SAVE").Err(); err != nil { // what a replica that lags has
		t.Fatal(err)
	}
	terms := &driver.Terms{Weight: 1, Record: &driver.Record{}}
	waitFor(t, "the lock is granted after the first grace", func() bool {
		if _, err := holder.KeepAlive(t.Context()); err != nil {
			t.Fatal(err)
		}
		out, err := holder.Attempt(t.Context(), &driver.Claim{Seq: 1, Name: "x", Terms: terms})
		return err == nil && out.State == driver.Granted
	})
	server.Restart()
	waitFor(t, "the server answers", func() bool { return server.Do("PING").Err() == nil })
	_, err = anOpen(t, other)
	wantRefused(t, "a process without grace", err, "grace=true")
	visitor, err := anOpen(t, store) // begins the incarnation, with its grace
	if err != nil {
		t.Fatal(err)
	}
	if err := visitor.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = anOpen(t, other)
	wantRefused(t, "a process without grace, during the grace", err, "grace=true")
}

// TestOperatorsNeedNoSettings: an operator who inspects, lists and breaks locks need not know
// the settings of a namespace, and does not set one up.
func TestOperatorsNeedNoSettings(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries {
		for _, opts := range []redisstore.Options{
			{MaxTTL: 3 * time.Second, Buckets: 1}, {MaxTTL: 3 * time.Second, Grace: true, Buckets: 1}, {Buckets: 5},
		} {
			server := redistest.Start(t)
			app := lib.open(t, login{addr: server.Addr}, &opts).Store
			tool := lib.open(t, login{addr: server.Addr}, &redisstore.Options{Buckets: 3}).Store
			operate(t, tool, nil)
			if keys, err := server.Do("DBSIZE").Int(); err != nil || keys != 0 {
				t.Errorf("an operator's calls left %d keys behind, %v", keys, err)
			}
			opened, err := anOpen(t, app)
			if err != nil {
				t.Fatal(err)
			}
			claim := &driver.Claim{Seq: 1, Name: "x", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "app"}}}
			var got driver.Outcome
			waitFor(t, "the app has the lock", func() bool {
				if _, err := opened.KeepAlive(t.Context()); err != nil {
					t.Fatal(err)
				}
				got, err = opened.Attempt(t.Context(), claim)
				return err == nil && got.State == driver.Granted
			})
			// The first bucket has a marker as soon as any has.
			if n, err := server.Do("EXISTS", "fencelock:{fencelock:0}").Int(); err != nil || n != 1 {
				t.Errorf("the first bucket is not marked: %d, %v", n, err)
			}
			operate(t, tool, &got)
			if _, err := anOpen(t, tool); !errors.Is(err, driver.ErrRefused) {
				t.Errorf("a session with other settings: got %v, want it refused", err)
			}
		}
	}
}

// operate makes an operator's calls, and checks what they show of the lock x.
func operate(t *testing.T, tool Store, held *driver.Outcome) {
	t.Helper()
	want, token := 0, driver.Token(driver.TokenStep)
	if held != nil {
		want, token = 1, held.Token
	}
	st, err := tool.Inspect(t.Context(), "x")
	if err != nil || st.Name != "x" || len(st.Holders) != want {
		t.Errorf("inspect: got %+v, %v, want %d holders", st, err, want)
	}
	page, err := tool.List(t.Context(), driver.ListQuery{Max: 10})
	if err != nil || len(page.Locks) != want {
		t.Errorf("list: got %+v, %v, want %d locks", page, err, want)
	}
	fence, err := tool.Break(t.Context(), "x", token)
	if held == nil && !errors.Is(err, driver.ErrNotHeld) || held != nil && (err != nil || fence <= token) {
		t.Errorf("break: got %v, %v", fence, err)
	}
}

// TestVacantNamespaceTakesOtherSettings: settings can be changed while no session is open
// and no lock is taken, and at no other time. Tokens go on rising.
func TestVacantNamespaceTakesOtherSettings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dial := func(opts redisstore.Options) Store {
		return libraries[0].open(t, login{addr: server.Addr}, &opts).Store
	}
	first, second := dial(redisstore.Options{}), dial(redisstore.Options{MaxTTL: 10 * time.Second})
	d, err := anOpen(t, first)
	if err != nil {
		t.Fatal(err)
	}
	claim := &driver.Claim{Seq: 1, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
	before, err := d.Attempt(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	_, err = anOpen(t, second)
	wantRefused(t, "while a session is open", err, "add max_ttl=1m0s to the URL")
	const kept = 2 * time.Second
	if _, err := d.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x", KeepFor: kept}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = anOpen(t, second)
	wantRefused(t, "while a lock is kept", err, "when no process uses the namespace")
	waitFor(t, "the lock is not kept any more", func() bool {
		st, err := first.Inspect(t.Context(), "x")
		return err == nil && len(st.Holders) == 0
	})
	d, err = anOpen(t, second)
	if err != nil {
		t.Fatalf("when the namespace is vacant: %v", err)
	}
	after, err := d.Attempt(t.Context(), claim)
	if err != nil || after.State != driver.Granted || after.Token <= before.Token {
		t.Errorf("got %+v, %v, want it granted above token %v", after, err, before.Token)
	}
	_, err = anOpen(t, first)
	wantRefused(t, "with the settings of before", err, "max_ttl=10s")
}

// TestOtherBucketsAreRefused: a process with another number of buckets keeps the same name in
// another bucket, and must not be let in, whichever bucket it comes to first.
func TestOtherBucketsAreRefused(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries {
		for _, pair := range [][2]int{{1, 5}, {5, 1}, {3, 5}, {5, 3}} {
			server := redistest.Start(t)
			open := func(buckets int) error {
				s := lib.open(t, login{addr: server.Addr}, &redisstore.Options{Buckets: buckets}).Store
				shard := s.Shard("order-1")
				if buckets > 1 && shard == "0" {
					t.Fatal("the name is in the first bucket")
				}
				_, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: shard, ID: driver.NewSessionID(), TTL: 2 * time.Second})
				return err
			}
			if err := open(pair[0]); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, fmt.Sprintf("%d buckets after %d", pair[1], pair[0]), open(pair[1]), fmt.Sprintf("add buckets=%d", pair[0]))
			// The bucket of the name has a hash, tickets and sessions, the first one a hash and tickets.
			if keys, err := server.Do("DBSIZE").Int(); err != nil || keys > 5 {
				t.Errorf("a refused session left %d keys, %v", keys, err)
			}
		}
	}
}

// TestLimitKeepsSettings: an operator's SetLimit on a vacant namespace does not replace its
// settings.
func TestLimitKeepsSettings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dial := func(opts redisstore.Options) Store {
		return libraries[0].open(t, login{addr: server.Addr}, &opts).Store
	}
	app, tool := dial(redisstore.Options{MaxTTL: 3 * time.Second}), dial(redisstore.Options{})
	d, err := anOpen(t, app)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tool.SetLimit(t.Context(), "x", 3); err != nil {
		t.Fatal(err)
	}
	raw, err := server.Do("HGET", "fencelock:{fencelock:0}", "m").Text()
	if err != nil || !strings.Contains(raw, "maxttl=3s") {
		t.Errorf("the marker is %q, %v; want the settings that it had", raw, err)
	}
	if st, err := app.Inspect(t.Context(), "x"); err != nil || st.Limit != 3 {
		t.Errorf("the limit is %d, %v", st.Limit, err)
	}
}

// TestLimitFindsTheBuckets: an operator's SetLimit with another number of buckets, for a name
// whose bucket no session has used, stores the limit where the processes find it, and sets up
// no bucket that then refuses them.
func TestLimitFindsTheBuckets(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dial := func(opts redisstore.Options) Store {
		return libraries[0].open(t, login{addr: server.Addr}, &opts).Store
	}
	app := dial(redisstore.Options{Buckets: 5})
	if _, err := anOpen(t, app); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		name := fmt.Sprint("limited-", i)
		tool := dial(redisstore.Options{Buckets: 3}) // it has not found the settings yet
		if err := tool.SetLimit(t.Context(), name, 3); err != nil {
			t.Fatal(err)
		}
		if st, err := app.Inspect(t.Context(), name); err != nil || st.Limit != 3 {
			t.Errorf("the limit of %s is %d, %v, want 3", name, st.Limit, err)
		}
	}
	for shard := range 5 {
		_, _, err := app.Open(t.Context(), driver.OpenRequest{Shard: fmt.Sprint(shard), ID: driver.NewSessionID(), TTL: 2 * time.Second})
		if err != nil {
			t.Errorf("bucket %d: %v", shard, err)
		}
	}
}

// TestNamespaceWithBraces: braces decide where a cluster keeps a key and are refused.
func TestNamespaceWithBraces(t *testing.T) {
	for _, namespace := range []string{"a{b}c", "a}", "{}", "{x"} {
		_, err := dialGoRedis(login{addr: "127.0.0.1:1"}, &redisstore.Options{Namespace: namespace})
		if err == nil || !strings.Contains(err.Error(), "brace") {
			t.Errorf("%q: got %v, want it refused", namespace, err)
		}
	}
}
