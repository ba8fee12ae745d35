// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// ends returns when a session ends, in ms of the server's clock.
func (l *listScene) ends(who string) float64 {
	l.t.Helper()
	id := l.ids[who]
	end, err := l.plain.ZScore(l.t.Context(), l.base+":s", string(id[:])).Result()
	if err != nil {
		l.t.Fatal(err)
	}
	return end
}

func (l *listScene) keepAlive(who string) driver.Renewal {
	l.t.Helper()
	renewal, err := l.on[who].KeepAlive(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return renewal
}

// TestListsKeepAliveIsPlain: a session is kept alive by one transaction, as long as a script
// would have kept it alive, and its claims stand.
func TestListsKeepAliveIsPlain(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	var sent recorder
	l.plain.AddHook(&sent)
	const ttl = 2 * time.Second
	l.open("ann", ttl)
	l.open("bob", 30*time.Second)
	l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	sent.take()
	for end := time.Now().Add(ttl + ttl/2); time.Now().Before(end); time.Sleep(ttl / 10) {
		began := time.Now()
		handled := l.keepAlive("ann").Clock
		took := time.Since(began)
		if got := sent.take(); !slices.Equal(got, []string{"multi, zadd, hmget, time, script, exec"}) {
			t.Fatalf("a keep-alive sends %q", got)
		}
		if lives := time.Duration(l.ends("ann")-float64(handled.UnixMilli())) * time.Millisecond; lives < ttl-took {
			t.Fatalf("it lives for %v, and the call took %v", lives, took)
		}
	}
	// The end in the bucket is over; the one beside it counts.
	l.attempt("bob", 1, "x", driver.Terms{}, driver.Queued)
}

// TestListsLateKeepAlive: a keep-alive that arrives after a later one changes nothing, and one
// that arrives after the session was closed does not bring it back.
func TestListsLateKeepAlive(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	l.open("ann", 30*time.Second)
	l.keepAlive("ann")
	end, id := l.ends("ann"), l.ids["ann"]
	late := func() {
		t.Helper()
		if err := l.plain.Do(t.Context(), "ZADD", l.base+":s", "XX", "GT", "CH", strconv.FormatFloat(end-5000, 'f', 0, 64), string(id[:])).Err(); err != nil {
			t.Fatal(err)
		}
	}
	late()
	if got := l.ends("ann"); got != end {
		t.Errorf("the session ends at %v instead of %v", got, end)
	}
	if err := l.on["ann"].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	late()
	if n := l.plain.ZCard(t.Context(), l.base+":s").Val(); n != 0 {
		t.Errorf("%d sessions are open", n)
	}
}

// TestListsKeepAliveAfterTheEnd: a session that ended is not kept alive, whether the process
// could know that or not.
func TestListsKeepAliveAfterTheEnd(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	const ttl = 2 * time.Second
	l.open("ann", ttl)
	l.open("bob", 30*time.Second)
	l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	l.keepAlive("ann")
	time.Sleep(ttl + ttl/2)
	if _, err := l.on["ann"].KeepAlive(t.Context()); !errors.Is(err, driver.ErrGone) {
		t.Errorf("a keep-alive after the end: %v", err)
	}
	l.attempt("bob", 1, "x", driver.Terms{}, driver.Granted)
}

// TestListsKeepAliveKeepsMarks: a keep-alive does not overwrite what others noted about the
// session: a broken lock is reported.
func TestListsKeepAliveKeepsMarks(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	l.open("ann", 30*time.Second)
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
