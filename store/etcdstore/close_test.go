// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
)

// resumed returns a session that was opened twice.
func resumed(t *testing.T) *session {
	t.Helper()
	s, err := New(etcdtest.Start(t, 1, servers.QuickEtcd...).Connect(t), &Options{MaxTTL: time.Hour})
	must.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	open := driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 10 * time.Second}
	if _, _, err := s.Open(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	opened, _, err := s.Open(t.Context(), open)
	must.OK(t, err)
	return opened.(*session)
}

// grantTo grants the lock x with the number of the claim.
func grantTo(t *testing.T, se *session, seq uint64) {
	t.Helper()
	out, err := se.Attempt(t.Context(), &driver.Claim{Seq: seq, Name: fmt.Sprint("x", seq), Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
	if err != nil || out.State != driver.Granted {
		t.Fatalf("attempt: %v, %v", out.State, err)
	}
}

// noted is how many claims a session has noted.
func (se *session) noted() int {
	se.mu.Lock()
	defer se.mu.Unlock()
	return len(se.touched)
}

// TestResumedSessionDoesNotNoteItsClaims: once a resumed session has dropped what it was not asked about, it does not note
// the claims that follow, however long it lives, and drops none of them.
func TestResumedSessionDoesNotNoteItsClaims(t *testing.T) {
	se := resumed(t)
	for seq := range uint64(3) {
		grantTo(t, se, seq+1)
		if _, err := se.Reclaim(t.Context(), nil, true); err != nil {
			t.Fatal(err)
		}
	}
	if n := se.noted(); n != 0 {
		t.Errorf("%d claims are noted", n)
	}
	for seq := range 3 {
		st, err := se.s.Inspect(t.Context(), fmt.Sprint("x", seq+1))
		if err != nil || len(st.Holders) != 1 {
			t.Errorf("x%d: %d holders, %v; want the session", seq+1, len(st.Holders), err)
		}
	}
}

// TestWithdrawnClaimsAreNotNoted: an Open that was sent twice resumes a session without claims, and no Reclaim follows.
func TestWithdrawnClaimsAreNotNoted(t *testing.T) {
	se := resumed(t)
	for seq := range uint64(3) {
		grantTo(t, se, seq+1)
		if seq == 0 {
			continue // it is held
		}
		if found, err := se.Withdraw(t.Context(), driver.Withdrawal{Seq: seq + 1, Name: fmt.Sprint("x", seq+1)}); err != nil || found != driver.WasGranted {
			t.Fatalf("withdraw: %v, %v", found, err)
		}
	}
	if n := se.noted(); n != 1 {
		t.Errorf("%d claims are noted, want the one that is held", n)
	}
}
