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
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// anOpen opens a session for a while, and returns it with the error.
func anOpen(t *testing.T, s Store) (driver.Session, error) {
	t.Helper()
	ttl := min(5*time.Second, s.Caps().MaxTTL) // a busy machine stands still for some of it
	d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: ttl})
	return d, err
}

// wantRefused fails unless an error refuses a session for its settings, and names these.
func wantRefused(t *testing.T, when string, err error, names string) {
	t.Helper()
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), names) {
		t.Errorf("%s: got %v, want it refused with %q", when, err, names)
	}
}

// setting returns one setting of a namespace, as an operator sees it.
func setting(t *testing.T, s Store, name string) string {
	t.Helper()
	all, err := s.Settings(t.Context())
	must.OK(t, err)
	for _, one := range all {
		if one.Name == name {
			return one.Value
		}
	}
	return ""
}

// opener opens stores on one server, each as another process.
func opener(t *testing.T, addr string) func(redisstore.Options) Store {
	return func(opts redisstore.Options) Store {
		return libraries[0].open(t, login{Addr: addr}, &opts).Store
	}
}

// mustOpen opens a session.
func mustOpen(t *testing.T, s Store) driver.Session {
	t.Helper()
	d, err := anOpen(t, s)
	must.OK(t, err)
	return d
}

// aClaim is a claim that does not wait.
func aClaim(seq uint64, name string) *driver.Claim {
	return &driver.Claim{Seq: seq, Name: name, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
}

// wantGrace fails unless an attempt finds a grace period, or finds none.
func wantGrace(t *testing.T, when string, d driver.Session, want bool) {
	t.Helper()
	out, err := d.Attempt(t.Context(), aClaim(77, "grace"))
	if err != nil || out.Grace != want || (out.State == driver.Granted) == want {
		t.Errorf("%s: got %+v, %v, want a grace period: %v", when, out, err, want)
	}
	if _, err := d.Withdraw(t.Context(), driver.Withdrawal{Seq: 77, Name: "grace"}); err != nil {
		t.Error(err)
	}
}

// old keeps a session alive until its incarnation is so old that to switch grace on needs no rest of a grace period.
func old(t *testing.T, server *redistest.Server, maxTTL time.Duration, alive driver.Session) {
	t.Helper()
	raw, err := server.Do("HGET", "fencelock:{fencelock:0}", "m").Text()
	must.OK(t, err)
	var began int64
	for _, b := range []byte(raw[:7]) {
		began = began<<8 | int64(b)
	}
	redistest.WaitFor(t, "the incarnation is older than max_ttl", func() bool {
		_, _ = alive.KeepAlive(t.Context())
		return time.Since(time.UnixMicro(began)) > maxTTL+100*time.Millisecond
	})
}

// TestAProcessThatAsksForGraceSwitchesItOn: nobody is refused, no lock waits, and from then on a data loss begins a grace
// period, also for a process that did not ask for it (rules Property and Remembered of package gracemodel).
func TestAProcessThatAsksForGraceSwitchesItOn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := opener(t, server.Addr)
	plain := open(redisstore.Options{})
	before := mustOpen(t, plain)
	wantGrace(t, "without grace", before, false)
	const maxTTL = 5 * time.Second
	old(t, server, maxTTL, before)
	asks := open(redisstore.Options{Grace: true, MaxTTL: maxTTL})
	after := mustOpen(t, asks)
	wantGrace(t, "when it was switched on", after, false)
	if _, err := before.KeepAlive(t.Context()); err != nil {
		t.Fatalf("a session from before: %v", err)
	}
	wantGrace(t, "to a session from before", before, false)
	if got := setting(t, plain, "grace"); got != "true" {
		t.Errorf("grace is %q, want true", got)
	}
	must.OK(t, server.Do("FLUSHALL").Err())
	// The process that did not ask has seen that there is grace.
	wantGrace(t, "after a data loss that a process found which had not asked", mustOpen(t, plain), true)
	if got := setting(t, plain, "max_ttl"); got != maxTTL.String() {
		t.Errorf("max_ttl is %s, want %v", got, maxTTL)
	}
}

// TestGraceIsFinishedWhenAStrangerWasFirst: a process that knows of no grace begins the incarnation after a data loss. The first
// process that knows of it has the rest of the grace period kept (rule Rest).
func TestGraceIsFinishedWhenAStrangerWasFirst(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := opener(t, server.Addr)
	stranger := mustOpen(t, open(redisstore.Options{}))
	wantGrace(t, "to the stranger", stranger, false)
	asks := open(redisstore.Options{Grace: true, MaxTTL: 20 * time.Second})
	wantGrace(t, "to a process that asks", mustOpen(t, asks), true)
	wantGrace(t, "to the stranger, from then on", stranger, true)
}

// TestHighestMaxTTLDecidesTheGracePeriod: a process that declares less than another does not make it shorter, neither while the
// marker is there (rule Highest) nor after it is gone (rule Known).
func TestHighestMaxTTLDecidesTheGracePeriod(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := opener(t, server.Addr)
	longer := open(redisstore.Options{Grace: true, MaxTTL: 9 * time.Second})
	mustOpen(t, longer)
	shorter := open(redisstore.Options{Grace: true, MaxTTL: 3 * time.Second})
	mustOpen(t, shorter)
	if got := setting(t, shorter, "max_ttl"); got != "9s" {
		t.Errorf("max_ttl is %s, want that of the other process, 9s", got)
	}
	must.OK(t, server.Do("FLUSHALL").Err())
	out, err := mustOpen(t, shorter).Attempt(t.Context(), aClaim(1, "x"))
	if err != nil || !out.Grace || out.PollAfter < 5*time.Second {
		t.Errorf("after a data loss: got %+v, %v, want a grace period of 9 s", out, err)
	}
}

// TestSettingsSurviveARestart: a process that asks for nothing is the first to come after a restart, and obeys; holders keep
// their leases.
func TestSettingsSurviveARestart(t *testing.T) {
	t.Parallel()
	server := redistest.Redis.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	open := opener(t, server.Addr)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fleet, err := fencelock.New(open(redisstore.Options{Grace: true, MaxTTL: 3 * time.Second}), &fencelock.Options{TTL: 3 * time.Second})
	must.OK(t, err)
	defer fleet.Close(context.Background())
	held, err := fleet.Mutex("x").Lock(ctx)
	must.OK(t, err)
	server.Restart()
	other := open(redisstore.Options{}) // it has seen nothing
	var first driver.Session
	redistest.WaitFor(t, "the server answers the other process", func() bool {
		first, err = anOpen(t, other)
		return err == nil
	})
	wantGrace(t, "to the other process", first, true)
	if _, err := fleet.Mutex("y").Lock(ctx); err != nil { // after the grace, and after keep-alives
		t.Errorf("the next lock: %v", err)
	}
	if err := held.Err(); err != nil {
		t.Errorf("the lease was lost: %v", err)
	}
}

// TestWeakerSettingsAreAnOperatorsStep: no process takes grace away or lowers max_ttl. An operator does, when no session asks
// for it any more, and then no process that has only seen it brings it back.
func TestWeakerSettingsAreAnOperatorsStep(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, 3} {
		server := redistest.Start(t)
		open := opener(t, server.Addr)
		strong := open(redisstore.Options{Grace: true, MaxTTL: 20 * time.Second, Buckets: buckets})
		if err := strong.Begin(t.Context()); err != nil { // without a grace period
			t.Fatal(err)
		}
		asking := mustOpen(t, strong)
		plain := open(redisstore.Options{Buckets: buckets})
		session := mustOpen(t, plain)
		tool := open(redisstore.Options{Buckets: 2})
		for _, weaker := range [][2]string{{"grace", "false"}, {"max_ttl", "7s"}} {
			err := tool.Configure(t.Context(), weaker[0], weaker[1])
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "1 open sessions ask for more; deploy their processes with "+weaker[0]) {
				t.Errorf("%v while a process asks for more: got %v", weaker, err)
			}
		}
		must.OK(t, asking.Close(t.Context()))
		for _, weaker := range [][2]string{{"max_ttl", "7s"}, {"grace", "false"}} {
			if err := tool.Configure(t.Context(), weaker[0], weaker[1]); err != nil {
				t.Errorf("%v: %v", weaker, err)
			}
		}
		if _, err := session.Attempt(t.Context(), aClaim(1, "x")); err != nil { // a script of a process that has seen grace
			t.Error(err)
		}
		if _, err := session.KeepAlive(t.Context()); err != nil {
			t.Error(err)
		}
		mustOpen(t, plain)
		if grace, most := setting(t, tool, "grace"), setting(t, tool, "max_ttl"); grace != "false" || most != "7s" {
			t.Errorf("with %d buckets: got grace=%s, max_ttl=%s, want what the operator set", buckets, grace, most)
		}
		if err := tool.Configure(t.Context(), "grace", "true"); err != nil || setting(t, plain, "grace") != "true" {
			t.Errorf("grace on: %v", err)
		}
	}
}

// TestWeakerSettingsWaitForTheEndOfAGracePeriod: sessions from before a data loss that have not come back are not counted, and a lower
// max_ttl would cut the grace period short of their leases.
func TestWeakerSettingsWaitForTheEndOfAGracePeriod(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := opener(t, server.Addr)
	long := open(redisstore.Options{Grace: true, MaxTTL: 9 * time.Second})
	mustOpen(t, long)
	must.OK(t, server.Do("FLUSHALL").Err())
	first := mustOpen(t, long) // it comes back, closes, and asks for nothing any more
	must.OK(t, first.Close(t.Context()))
	tool := open(redisstore.Options{})
	for _, weaker := range [][2]string{{"max_ttl", "2s"}, {"grace", "false"}} {
		err := tool.Configure(t.Context(), weaker[0], weaker[1])
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "not all processes have come back; repeat this in ") {
			t.Errorf("%v in a grace period: got %v", weaker, err)
		}
	}
	if err := tool.Configure(t.Context(), "max_ttl", "10s"); err != nil {
		t.Errorf("a longer max_ttl: %v", err)
	}
	wantGrace(t, "after all that", mustOpen(t, long), true)
}

// TestNewNamespaceBeginsWithoutGrace: an operator who knows that a namespace is new sets it up so that its first lock does not
// wait, and only then.
func TestNewNamespaceBeginsWithoutGrace(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, 3} {
		server := redistest.Start(t)
		open := opener(t, server.Addr)
		store := open(redisstore.Options{Grace: true, Buckets: buckets})
		if all, err := store.Settings(t.Context()); err != nil || all != nil {
			t.Errorf("settings of a namespace that is not set up: %v, %v", all, err)
		}
		must.OK(t, store.Begin(t.Context()))
		wantGrace(t, "after Begin", mustOpen(t, store), false)
		if got := setting(t, store, "grace"); got != "true" {
			t.Errorf("grace is %q, want true", got)
		}
		for _, again := range []Store{store, open(redisstore.Options{Grace: true, Buckets: 2})} {
			if err := again.Begin(t.Context()); !errors.Is(err, driver.ErrRefused) {
				t.Errorf("a second time: got %v, want it refused", err)
			}
		}
		must.OK(t, server.Do("FLUSHALL").Err())
		wantGrace(t, "after a data loss", mustOpen(t, store), true)
	}
}

// TestSettingsThatDoNotExist: a wrong name or value is an error that names what there is.
func TestSettingsThatDoNotExist(t *testing.T) {
	t.Parallel()
	store := opener(t, redistest.Start(t).Addr)(redisstore.Options{})
	mustOpen(t, store)
	for _, wrong := range [][3]string{
		{"grace", "perhaps", "true or false"}, {"max_ttl", "1ms", "at least 100ms"}, {"max_ttl", "soon", "such as 15s"},
		{"buckets", "3", "docs/redis-layout.md"}, {"color", "red", "grace and max_ttl"},
	} {
		if err := store.Configure(t.Context(), wrong[0], wrong[1]); err == nil || !strings.Contains(err.Error(), wrong[2]) {
			t.Errorf("%s=%s: got %v, want it to say %q", wrong[0], wrong[1], err, wrong[2])
		}
	}
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
			app := lib.open(t, login{Addr: server.Addr}, &opts).Store
			tool := lib.open(t, login{Addr: server.Addr}, &redisstore.Options{Buckets: 3}).Store
			operate(t, tool, nil)
			if keys, err := server.Do("DBSIZE").Int(); err != nil || keys != 0 {
				t.Errorf("an operator's calls left %d keys behind, %v", keys, err)
			}
			opened, err := anOpen(t, app)
			must.OK(t, err)
			claim := &driver.Claim{Seq: 1, Name: "x", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "app"}}}
			var got driver.Outcome
			redistest.WaitFor(t, "the app has the lock", func() bool {
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
			if _, err := anOpen(t, tool); !errors.Is(err, driver.ErrRefused) || strings.Contains(err.Error(), "use another namespace") {
				t.Errorf("a session with another number of buckets: got %v, want it refused", err)
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

// TestOtherBucketsAreRefused: a process with another number of buckets keeps the same name in
// another bucket, and must not be let in, whichever bucket it comes to first.
func TestOtherBucketsAreRefused(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries {
		for _, pair := range [][2]int{{1, 5}, {5, 1}, {3, 5}, {5, 3}} {
			server := redistest.Start(t)
			open := func(buckets int) error {
				s := lib.open(t, login{Addr: server.Addr}, &redisstore.Options{Buckets: buckets}).Store
				shard := s.Shard("order-1")
				if buckets > 1 && shard == "0" {
					t.Fatal("the name is in the first bucket")
				}
				_, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: shard, ID: driver.NewSessionID(), TTL: 2 * time.Second})
				return err
			}
			must.OK(t, open(pair[0]))
			wantRefused(t, fmt.Sprintf("%d buckets after %d", pair[1], pair[0]), open(pair[1]), fmt.Sprintf("add buckets=%d", pair[0]))
			// The bucket of the name has a hash, tickets and sessions, the first one a hash and tickets.
			if keys, err := server.Do("DBSIZE").Int(); err != nil || keys > 5 {
				t.Errorf("a refused session left %d keys, %v", keys, err)
			}
		}
	}
}

// TestLimitFindsTheBuckets: an operator's SetLimit with another number of buckets, for a name
// whose bucket no session has used, stores the limit where the processes find it, and sets up
// no bucket that then refuses them.
func TestLimitFindsTheBuckets(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dial := func(opts redisstore.Options) Store {
		return libraries[0].open(t, login{Addr: server.Addr}, &opts).Store
	}
	app := dial(redisstore.Options{Buckets: 5})
	if _, err := anOpen(t, app); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		name := fmt.Sprint("limited-", i)
		tool := dial(redisstore.Options{Buckets: 3}) // it has not found the settings yet
		must.OK(t, tool.SetLimit(t.Context(), name, 3))
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
		_, err := dialGoRedis(login{Addr: "127.0.0.1:1"}, &redisstore.Options{Namespace: namespace})
		if err == nil || !strings.Contains(err.Error(), "brace") {
			t.Errorf("%q: got %v, want it refused", namespace, err)
		}
	}
}
