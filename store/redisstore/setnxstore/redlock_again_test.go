// SPDX-License-Identifier: Apache-2.0

package setnxstore_test

import (
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// These tests open a session again, as it is done if the other store of a migration lost its data.

// reclaim reclaims claims that a majority has.
func reclaim(t *testing.T, s driver.Session, claims ...*driver.Claim) {
	t.Helper()
	var held []driver.Held
	for _, c := range claims {
		held = append(held, driver.Held{Claim: *c})
	}
	kept, err := s.Reclaim(t.Context(), held, true)
	must.OK(t, err)
	for i, c := range claims {
		if !kept[i] {
			t.Errorf("claim %d of %s is not given back", c.Seq, c.Name)
		}
	}
}

// doubt makes an attempt of a claim fail that one server has granted, and whose reply was lost.
func doubt(t *testing.T, s driver.Session, wires []*wire, c *driver.Claim) {
	t.Helper()
	wires[0].set(takeWords, loseReply)
	wires[1].set(takeWords, refuse)
	wires[2].set(takeWords, refuse)
	if out, err := s.Attempt(t.Context(), c); err == nil {
		t.Fatalf("the attempt whose reply was lost is %v", out.State)
	}
	for _, w := range wires {
		w.clear()
	}
}

// wantFree waits until no server has a key.
func (s three) wantFree(t *testing.T, key string) {
	t.Helper()
	must.OK(t, servers.Await("all servers are free", func() bool { return s.count(t, key) == 0 }))
}

// TestRedlockThatIsReclaimedAndLostIsReported: by the renewals of the session that was opened again.
func TestRedlockThatIsReclaimedAndLostIsReported(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s, _, again := all.openAgain(t)
	attempt(t, s, claim(1, "x"), driver.Granted)
	must.OK(t, servers.Await("all servers have it", func() bool { return all.count(t, "x") == 3 }))
	s = again()
	reclaim(t, s, claim(1, "x"))
	wantBroken(t, s)
	for _, server := range all[:2] {
		must.OK(t, server.Do("SET", "x", "foreign", "PX", 600_000).Err())
	}
	wantBroken(t, s, 1)
	withdraw(t, s, 1, "x", driver.WasBroken)
}

// TestRedlockAfterADoubtfulAttemptIsReclaimed: it has another number on the servers than a first attempt.
func TestRedlockAfterADoubtfulAttemptIsReclaimed(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s, wires, again := all.openAgain(t)
	doubt(t, s, wires, claim(1, "x"))
	all.wantFree(t, "x")
	attempt(t, s, claim(1, "x"), driver.Granted)
	s = again()
	reclaim(t, s, claim(1, "x"))
	wantBroken(t, s)
	withdraw(t, s, 1, "x", driver.WasGranted)
	all.wantFree(t, "x")
}

// TestRedlockThatIsReclaimedIsUnlockedAfterADoubtfulAttempt: the attempt of another claim changes no number of the first.
func TestRedlockThatIsReclaimedIsUnlockedAfterADoubtfulAttempt(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s, wires, again := all.openAgain(t)
	attempt(t, s, claim(1, "x"), driver.Granted)
	s = again()
	reclaim(t, s, claim(1, "x"))
	doubt(t, s, wires, claim(2, "y"))
	withdraw(t, s, 1, "x", driver.WasGranted)
	all.wantFree(t, "x")
	all.wantFree(t, "y")
}

// TestRedlockUndoOfAnEarlierOpeningLeavesTheLease: a server answers an attempt of the earlier opening after the claim
// was attempted again. What is withdrawn then must not be the lock that is held.
func TestRedlockUndoOfAnEarlierOpeningLeavesTheLease(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s, wires, again := all.openAgain(t)
	must.OK(t, all[1].Do("SET", "x", "foreign", "PX", 600_000).Err())
	wires[0].set(takeWords, refuse)
	taken, withdraw := wires[2].holdFirst()
	failed := make(chan error, 1)
	go func() {
		_, err := s.Attempt(t.Context(), claim(1, "x"))
		failed <- err
	}()
	await(t, "the third server has it", taken)
	<-failed
	wires[0].clear()
	s = again()
	out, err := s.Attempt(t.Context(), claim(1, "x"))
	must.OK(t, err)
	withdraw(t)
	must.OK(t, servers.Await("the claim is granted", func() bool {
		if out.State != driver.Granted {
			out, err = s.Attempt(t.Context(), claim(1, "x"))
			must.OK(t, err)
		}
		return out.State == driver.Granted
	}))
	wantBroken(t, s)
	if v := all.values(t, "x"); v[0] == "" || v[0] != v[2] {
		t.Errorf("the lock is held, and the servers have %q", v)
	}
}

// TestRedlockLateAttemptOfAnEarlierOpeningIsFreed: a server gets an attempt of the earlier opening after the claim was
// withdrawn in the later one.
func TestRedlockLateAttemptOfAnEarlierOpeningIsFreed(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s, wires, again := all.openAgain(t)
	resume, taken := make(chan struct{}), make(chan struct{})
	wires[2].set(takeWords, func(_ []any, send func() error) error {
		defer close(taken)
		<-resume
		return send()
	})
	attempt(t, s, claim(1, "x"), driver.Granted)
	s = again()
	wires[2].clear()
	reclaim(t, s, claim(1, "x"))
	wires[2].set(releaseWords, refuse)
	withdraw(t, s, 1, "x", driver.WasGranted)
	close(resume)
	await(t, "the third server has it", taken)
	must.OK(t, servers.Await("the third server is free", func() bool {
		wantBroken(t, s)
		return all.values(t, "x")[2] == ""
	}))
}
