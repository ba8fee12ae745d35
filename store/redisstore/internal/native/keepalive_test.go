// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// ends returns when a session ends, in ms of the server's clock.
func (l *listScene) ends(who string) float64 {
	l.t.Helper()
	id := l.ids[who]
	end, err := l.plain.ZScore(l.t.Context(), l.base+":s", string(id[:])).Result()
	must.OK(l.t, err)
	return end
}

func (l *listScene) keepAlive(who string) driver.Renewal {
	l.t.Helper()
	renewal, err := l.on[who].KeepAlive(l.t.Context())
	must.OK(l.t, err)
	return renewal
}

// TestKeepAliveIsPlain: a session is kept alive by one pipeline, as long as a script
// would have kept it alive, and its claims stand.
func TestKeepAliveIsPlain(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	var sent recorder
	l.plain.AddHook(&sent)
	const ttl = 2 * time.Second
	l.open("bob", time.Minute)
	l.open("ann", ttl)
	l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	sent.take()
	for end := time.Now().Add(ttl + ttl/2); time.Now().Before(end); time.Sleep(ttl / 10) {
		began := time.Now()
		handled := l.keepAlive("ann").Clock
		took := time.Since(began)
		if got := sent.take(); !slices.Equal(got, []string{"zadd XX GT CH, hmget, time, script"}) {
			t.Fatalf("a keep-alive sends %q", got)
		}
		if lives := time.Duration(l.ends("ann")-float64(handled.UnixMilli())) * time.Millisecond; lives < ttl-took {
			t.Fatalf("it lives for %v, and the call took %v", lives, took)
		}
	}
	// The end in the bucket is over; the one beside it counts.
	l.attempt("bob", 1, "x", driver.Terms{}, driver.Queued)
}

// TestKeepAliveOnACluster: there it is a transaction, which keeps the commands without a key on the server of the session.
func TestKeepAliveOnACluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.ClusterNode(t)...)
	must.OK(t, server.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383").Err())
	redistest.WaitFor(t, "the cluster is up", func() bool { return server.ClusterInfo("cluster_state") == "ok" })
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr}, ContextTimeoutEnabled: true})
	defer client.Close()
	var sent recorder
	client.AddHook(&sent)
	store, err := newGoRedis(client, &native.Options{Buckets: 1})
	must.OK(t, err)
	s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard("x"), ID: driver.NewSessionID(), TTL: 30 * time.Second})
	must.OK(t, err)
	redistest.WaitFor(t, "a keep-alive is a transaction", func() bool { // by a script, until the scripts of the run are loaded
		sent.take()
		if _, err := s.KeepAlive(t.Context()); err != nil {
			t.Fatal(err)
		}
		return slices.Equal(sent.take(), []string{"multi, zadd XX GT CH, hmget, time, script, exec"})
	})
}

// TestLateKeepAlive: a keep-alive that arrives after a later one changes nothing, and one
// that arrives after the session was closed does not bring it back.
func TestLateKeepAlive(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	l.open("ann", time.Minute)
	l.keepAlive("ann")
	end, id := l.ends("ann"), l.ids["ann"]
	late := func() {
		t.Helper()
		must.OK(t, l.plain.Do(t.Context(), "ZADD", l.base+":s", "XX", "GT", "CH", strconv.FormatFloat(end-5000, 'f', 0, 64), string(id[:])).Err())
	}
	late()
	if got := l.ends("ann"); got != end {
		t.Errorf("the session ends at %v instead of %v", got, end)
	}
	must.OK(t, l.on["ann"].Close(t.Context()))
	late()
	if n := l.plain.ZCard(t.Context(), l.base+":s").Val(); n != 0 {
		t.Errorf("%d sessions are open", n)
	}
}

// TestKeepAliveAfterTheEnd: a session that ended is not kept alive, whether the process
// could know that or not.
func TestKeepAliveAfterTheEnd(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	const ttl = 2 * time.Second
	l.open("ann", ttl)
	l.open("bob", time.Minute)
	l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	l.keepAlive("ann")
	time.Sleep(ttl + ttl/2)
	if _, err := l.on["ann"].KeepAlive(t.Context()); !errors.Is(err, driver.ErrGone) {
		t.Errorf("a keep-alive after the end: %v", err)
	}
	l.attempt("bob", 1, "x", driver.Terms{}, driver.Granted)
}

// TestKeepAliveArrivesLate: a keep-alive that was sent in time and arrives after the end of
// its session ends it for good: others may have held its locks in between.
func TestKeepAliveArrivesLate(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	const ttl = time.Second
	l.open("ann", ttl)
	l.open("bob", time.Minute)
	l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	l.plain.AddHook(&recorder{before: func() { time.Sleep(ttl + ttl/2) }})
	if renewal, err := l.on["ann"].KeepAlive(t.Context()); !errors.Is(err, driver.ErrGone) {
		t.Errorf("a keep-alive that arrives after the end: %+v, %v", renewal, err)
	}
	l.attempt("bob", 1, "x", driver.Terms{}, driver.Granted)
}

// TestKeepAliveByAClockBehind: a process that takes the server's clock for earlier than it is
// would move the end to a time that is too early. A script moves it then.
func TestKeepAliveByAClockBehind(t *testing.T) {
	t.Parallel()
	p, client := newPretense(t, redistest.Start(t).Addr)
	p.proven = true
	must.OK(t, p.write(t.Context()))
	var behind time.Duration
	clocks.Store(p.namespace, func() time.Time { return p.now.Add(-behind) })
	w := newWorld(t, p, newStore(t, p, client, false), nil)
	w.open(0, time.Second)
	behind = 300 * time.Millisecond
	w.elapse(500 * time.Millisecond)
	w.keepAlive(0)
	keys, err := p.plain.Keys(t.Context(), p.namespace+"*:s").Result()
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	end, err := p.plain.ZScore(t.Context(), keys[0], string(w.procs[0].id[:])).Result()
	if least := p.now.Add(w.procs[0].ttl).UnixMilli(); err != nil || int64(end) < least {
		t.Errorf("the session ends at %.0f, %v, want at least %d", end, err, least)
	}
}

// TestKeepAliveKeepsMarks: a keep-alive does not overwrite what others noted about the
// session: a broken lock is reported.
func TestKeepAliveKeepsMarks(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	l.open("ann", time.Minute)
	token := l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	l.keepAlive("ann")
	if _, err := l.store.Break(t.Context(), "x", token); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := l.keepAlive("ann").Broken; !slices.Equal(got, []uint64{1}) {
			t.Errorf("broken are %v", got)
		}
	}
}

// TestKeepAliveKeepsShortScripts: plain keep-alives move the end of a session in the sorted
// set only. Once the end that scripts noted is over, a script reads the other and notes it, which
// takes two commands, and stays short.
func TestKeepAliveKeepsShortScripts(t *testing.T) {
	t.Parallel()
	p, client := newPretense(t, redistest.Start(t).Addr)
	p.proven = true
	must.OK(t, p.write(t.Context()))
	w := newWorld(t, p, newStoreIn(t, client, p.namespace+scripted, false), nil)
	w.open(0, time.Second)
	w.open(1, time.Second)
	seq := w.procs[0].seq + w.procs[1].seq
	cost := func(do func()) int {
		before := commandsDone(t, p)
		do()
		return commandsDone(t, p) - before
	}
	// round lets two processes pass a lock to each other.
	round := func() [4]int {
		seq++
		a := &driver.Claim{Seq: seq, Name: "a", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
		return [4]int{
			cost(func() { w.attempt(0, a) }),
			cost(func() { w.attempt(1, a) }),
			cost(func() { w.withdraw(0, driver.Withdrawal{Seq: a.Seq, Name: "a"}) }),
			cost(func() { w.withdraw(1, driver.Withdrawal{Seq: a.Seq, Name: "a"}) }),
		}
	}
	first, whole := round(), 0
	for range 20 {
		w.p.now = w.p.now.Add(400 * time.Millisecond)
		w.must(w.p.write(w.ctx))
		sessions := 2 // whose ends were moved
		w.keepAlive(0)
		w.keepAlive(1)
		for i, n := range round() {
			if n > first[i]+2*sessions {
				whole++ // a check of the replication id counts for a second
				t.Logf("after %v call %d takes %d commands, and took %d", w.p.now.Sub(time.Unix(1800000000, 0)), i, n, first[i])
			}
		}
	}
	if whole > 8 {
		t.Errorf("%d of 80 calls in 8 s needed the whole script, want one in a second", whole)
	}
}

// TestWithdrawnBreaksCostNothing: a claim that was broken, and withdrawn, does not make later keep-alives cost more, and few
// of them are remembered.
func TestWithdrawnBreaksCostNothing(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	l.open("ann", time.Minute)
	const breaks = 300
	for seq := uint64(1); seq <= breaks; seq++ {
		token := l.attempt("ann", seq, "x", driver.Terms{}, driver.Granted)
		if _, err := l.store.Break(t.Context(), "x", token); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the answer to the first may be lost
			if found, err := l.on["ann"].Withdraw(t.Context(), driver.Withdrawal{Seq: seq, Name: "x"}); err != nil || found != driver.WasBroken {
				t.Fatalf("withdrawal %d: %v, %v", seq, found, err)
			}
		}
	}
	var sent scripts
	l.plain.AddHook(&sent)
	l.keepAlive("ann")
	if got := sent.take(); !slices.Equal(got, []string{"zadd XX GT CH, hmget, time, script"}) {
		t.Errorf("a keep-alive sends %q", got)
	}
	all, err := l.plain.HGetAll(t.Context(), l.base).Result()
	must.OK(t, err)
	for field, value := range all {
		if len(value) > 300 {
			t.Errorf("field %q has %d bytes", field[:1], len(value))
		}
	}
}
