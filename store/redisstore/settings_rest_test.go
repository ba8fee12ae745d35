// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// strangerFirst is a namespace with grace that lost everything, and that a process began again which knew less.
type strangerFirst struct {
	server   *redistest.Server
	open     func(redisstore.Options) Store
	asks     redisstore.Options // of the holder
	id       driver.SessionID   // of before the loss
	token    driver.Token
	seen     Store // has seen the settings of before, and has not come back
	stranger driver.Session
}

// loseToAStranger has a process hold x, and then a stranger come first.
func loseToAStranger(t *testing.T, stranger redisstore.Options) *strangerFirst {
	t.Helper()
	server := redistest.Start(t)
	f := &strangerFirst{server: server, open: opener(t, server.Addr), asks: redisstore.Options{Grace: true, MaxTTL: 20 * time.Second}, id: driver.NewSessionID()}
	process := f.open(f.asks)
	must.OK(t, process.Begin(t.Context()))
	holder, _, err := process.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: f.id, TTL: 20 * time.Second})
	must.OK(t, err)
	f.token = f.grant(t, holder, 1, "x")
	f.seen = f.open(stranger)
	openIn(t, f.seen, "0", 5*time.Second)
	must.OK(t, server.Do("FLUSHALL").Err())
	f.stranger = openIn(t, f.open(stranger), "0", 5*time.Second)
	return f
}

func (f *strangerFirst) grant(t *testing.T, d driver.Session, seq uint64, name string) driver.Token {
	t.Helper()
	out, err := d.Attempt(t.Context(), aClaim(seq, name))
	if err != nil || out.State != driver.Granted {
		t.Fatalf("got %+v, %v, want %s granted", out, err, name)
	}
	return out.Token
}

// reclaim is what the holder does when it finds the loss.
func (f *strangerFirst) reclaim(t *testing.T) bool {
	t.Helper()
	return f.reclaimAs(t, f.id, "x", f.token)
}

// reclaimAs is the same for any session and grant.
func (f *strangerFirst) reclaimAs(t *testing.T, id driver.SessionID, name string, token driver.Token) bool {
	t.Helper()
	d, _, err := f.open(f.asks).Open(t.Context(), driver.OpenRequest{Shard: "0", ID: id, TTL: 20 * time.Second})
	must.OK(t, err)
	kept, err := d.Reclaim(t.Context(), []driver.Held{{Claim: *aClaim(1, name), Token: token}}, true)
	must.OK(t, err)
	return kept[0]
}

// TestRestOfAGracePeriodIsNotUndone: a process that has seen the settings of before has the rest of the grace period kept (N4). It
// began with a data loss, and the holder has not come back: an operator cannot make it shorter (N5).
func TestRestOfAGracePeriodIsNotUndone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stranger redisstore.Options
		change   [2]string
	}{
		{redisstore.Options{}, [2]string{"grace", "false"}},
		{redisstore.Options{MaxTTL: 10 * time.Second}, [2]string{"max_ttl", "10s"}},
	} {
		f := loseToAStranger(t, c.stranger)
		openIn(t, f.seen, "0", 5*time.Second)
		wantGrace(t, "when a process came that has seen it", f.stranger, true)
		wantRefused(t, c.change[0], f.open(redisstore.Options{}).Configure(t.Context(), c.change[0], c.change[1]), "not all processes have come back")
		wantGrace(t, "when an operator tried to undo it", f.stranger, true)
	}
}

// TestGraceThatAProcessAskedForIsNotUndone: the same if the process that had the rest kept only asks for grace, and is gone.
func TestGraceThatAProcessAskedForIsNotUndone(t *testing.T) {
	t.Parallel()
	f := loseToAStranger(t, redisstore.Options{})
	must.OK(t, openIn(t, f.open(f.asks), "0", 5*time.Second).Close(t.Context()))
	wantRefused(t, "grace", f.open(redisstore.Options{}).Configure(t.Context(), "grace", "false"), "not all processes have come back")
	wantGrace(t, "when an operator tried to undo it", f.stranger, true)
}

// TestRestOfAGracePeriodPutsNothingBackAfterANewerGrant: a stranger was granted the lock after the loss, and released it. Then the
// holder of before finds the loss and has the rest of the grace period kept. Its lease is lost (R4).
func TestRestOfAGracePeriodPutsNothingBackAfterANewerGrant(t *testing.T) {
	t.Parallel()
	f := loseToAStranger(t, redisstore.Options{})
	newer := f.grant(t, f.stranger, 1, "x")
	_, err := f.stranger.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"})
	must.OK(t, err)
	if f.reclaim(t) {
		t.Errorf("the grant %d was put back after %d, which was released", f.token, newer)
	}
	wantGrace(t, "until earlier leases have ended", f.stranger, true)
}

// TestLaterLossPutsNothingBackAfterANewerGrant: the server fails over before the holder of before comes. The new incarnation has a
// whole grace period, but a stranger had the lock in the one between (R4). What the stranger itself has lost is put back.
func TestLaterLossPutsNothingBackAfterANewerGrant(t *testing.T) {
	t.Parallel()
	f := loseToAStranger(t, redisstore.Options{})
	newer := f.grant(t, f.stranger, 1, "x")
	_, err := f.stranger.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"})
	must.OK(t, err)
	rewind, err := f.server.Checkpoint()
	must.OK(t, err)
	id := driver.NewSessionID()
	other, _, err := f.open(redisstore.Options{}).Open(t.Context(), driver.OpenRequest{Shard: "0", ID: id, TTL: 20 * time.Second})
	must.OK(t, err)
	lost := f.grant(t, other, 1, "y")
	must.OK(t, rewind())
	if f.reclaim(t) {
		t.Errorf("the grant %d was put back after %d, which was released", f.token, newer)
	}
	if !f.reclaimAs(t, id, "y", lost) {
		t.Errorf("the grant %d was not put back, though it was the last", lost)
	}
}

// TestLaterLossPutsGrantsBack: a second loss in a grace period, in which claims were queued, takes no lease from the holder.
func TestLaterLossPutsGrantsBack(t *testing.T) {
	t.Parallel()
	f := loseToAStranger(t, redisstore.Options{Grace: true, MaxTTL: 20 * time.Second})
	queued := aClaim(1, "y")
	queued.Queue = true
	out, err := f.stranger.Attempt(t.Context(), queued)
	if err != nil || out.State != driver.Queued {
		t.Fatalf("got %+v, %v, want it queued", out, err)
	}
	rewind, err := f.server.Checkpoint()
	must.OK(t, err)
	must.OK(t, rewind())
	if !f.reclaim(t) {
		t.Error("the lease was lost, though nothing was granted since")
	}
}

// TestRestOfAGracePeriodPutsGrantsBack: a stranger that was granted nothing yet takes no lease from the holder.
func TestRestOfAGracePeriodPutsGrantsBack(t *testing.T) {
	t.Parallel()
	f := loseToAStranger(t, redisstore.Options{})
	if !f.reclaim(t) {
		t.Error("the lease was lost, though nothing was granted since")
	}
}
