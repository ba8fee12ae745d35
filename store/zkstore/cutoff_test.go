// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore"
)

// TestCutOffWithItsServer: a holder and the follower that it is connected to are cut off
// together, right after a keep-alive. The leader has not heard of that keep-alive from the
// follower, and counts from the one before. No other client may get the lock within the
// TTL that the keep-alive returned.
func TestCutOffWithItsServer(t *testing.T) {
	e := start(t, 3)
	follower := serverIn(t, e, "follower")
	var rest []string
	for _, s := range e.Servers {
		if s != follower {
			rest = append(rest, s.Addr)
		}
	}
	store, err := zkstore.New([]string{follower.Addr}, &zkstore.Options{TickTime: servers.TickTime})
	must.OK(t, err)
	defer store.Close()
	ses, renewal, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 2500 * time.Millisecond})
	must.OK(t, err)
	out, err := ses.Attempt(t.Context(), &driver.Claim{Seq: 1, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
	if err != nil || out.State != driver.Granted {
		t.Fatalf("got %v, %v; want the free lock", out.State, err)
	}
	next := newProcess(t, rest, 2*time.Second).waiting(t, "x")
	tick := time.NewTicker(renewal.TTL / 3) // as the core does
	defer tick.Stop()
	var sent time.Time
	for range 3 {
		<-tick.C
		sent = time.Now()
		if renewal, err = ses.KeepAlive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	defer follower.Pause()()
	granted(t, next)
	if after := time.Since(sent); after < renewal.TTL {
		t.Errorf("another got the lock %v after a keep-alive that returned a TTL of %v", after, renewal.TTL)
	}
	// Otherwise a TTL of nothing would pass.
	if want := 2500 * time.Millisecond / 2; renewal.TTL < want {
		t.Errorf("the TTL returned is %v, want at least %v", renewal.TTL, want)
	}
}
