// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/testhook"
)

func TestRemainsShowWhatTheStoreKeeps(t *testing.T) {
	s := New(nil)
	n, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute})
	must.OK(t, err)
	attempt := func(seq uint64, name string) driver.Token {
		terms := &driver.Terms{Weight: 1, Record: &driver.Record{}}
		out, err := n.Attempt(t.Context(), &driver.Claim{Seq: seq, Name: name, Terms: terms, Queue: true})
		must.OK(t, err)
		return out.Token
	}
	withdraw := func(w driver.Withdrawal) {
		if _, err := n.Withdraw(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	attempt(1, "held")
	attempt(2, "held")
	attempt(3, "tombstone")
	withdraw(driver.Withdrawal{Seq: 3, Name: "tombstone", Tombstone: true})
	if _, err := s.Break(t.Context(), "broken", attempt(4, "broken")); err != nil {
		t.Fatal(err)
	}
	attempt(5, "kept")
	withdraw(driver.Withdrawal{Seq: 5, Name: "kept", KeepFor: time.Hour})
	got := testhook.MemstoreRemains(s)
	if len(got.Sessions) != 1 || !slices.Equal(got.Kept, []string{"kept"}) || len(got.Empty) != 0 {
		t.Fatalf("got %+v", got)
	}
	one := got.Sessions[0]
	if !slices.Equal(one.Granted, []string{"held"}) || !slices.Equal(one.Queued, []string{"held"}) ||
		one.Tombstones != 1 || one.Ended != 1 || one.Broken != 1 {
		t.Errorf("got %+v", one)
	}
	must.OK(t, n.Close(t.Context()))
	if got := testhook.MemstoreRemains(s); len(got.Sessions) != 0 {
		t.Errorf("after Close: %+v", got)
	}
}

// TestGrantsOfASnapshot: a snapshot keeps the grants of its time, and queued claims
// are not among them.
func TestGrantsOfASnapshot(t *testing.T) {
	s, id := New(nil), driver.NewSessionID()
	n, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: id, TTL: time.Minute})
	must.OK(t, err)
	var token driver.Token
	for seq := range uint64(2) {
		out, err := n.Attempt(t.Context(), &driver.Claim{Seq: seq + 1, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}, Queue: true})
		must.OK(t, err)
		token = max(token, out.Token)
	}
	snap := s.Snapshot()
	must.OK(t, n.Close(t.Context()))
	want := []testhook.Grant{{Session: id, Name: "x", Token: token}}
	if got := testhook.MemstoreGrants(snap); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := testhook.MemstoreGrants(s.Snapshot()); len(got) != 0 {
		t.Errorf("after Close: %v", got)
	}
	if got := testhook.MemstoreGrants((*Snapshot)(nil)); len(got) != 0 {
		t.Errorf("of no snapshot: %v", got)
	}
}

// TestWithdrawalOfAnEndedGrantLeavesNothing: no call came to the lock between the
// end of the grant and its withdrawal, which is then what ends it.
func TestWithdrawalOfAnEndedGrantLeavesNothing(t *testing.T) {
	s := New(nil)
	n, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute})
	must.OK(t, err)
	terms := &driver.Terms{Weight: 1, MaxHold: time.Second, Record: &driver.Record{}}
	if _, err := n.Attempt(t.Context(), &driver.Claim{Seq: 1, Name: "short", Terms: terms}); err != nil {
		t.Fatal(err)
	}
	s.StepClock(2 * time.Second)
	if _, err := n.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "short"}); err != nil {
		t.Fatal(err)
	}
	if one := testhook.MemstoreRemains(s).Sessions[0]; one.Ended != 0 {
		t.Errorf("the store keeps %+v", one)
	}
}

// TestUnusedKeptLockIsDropped: the mark of every occurrence of a job is a lock with
// another name.
func TestUnusedKeptLockIsDropped(t *testing.T) {
	s := New(nil)
	n, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute})
	must.OK(t, err)
	terms := &driver.Terms{Weight: 1, Record: &driver.Record{}}
	for seq, name := range []string{"job@1", "job@2"} {
		claim := driver.Claim{Seq: uint64(seq), Name: name, Terms: terms}
		if _, err := n.Attempt(t.Context(), &claim); err != nil {
			t.Fatal(err)
		}
		keep := time.Duration(seq+1) * 10 * time.Second
		if _, err := n.Withdraw(t.Context(), driver.Withdrawal{Seq: claim.Seq, Name: name, KeepFor: keep}); err != nil {
			t.Fatal(err)
		}
	}
	s.Restart() // the list by time is remembered too
	for _, want := range []int{2, 1, 0} {
		if got := testhook.MemstoreRemains(s).Kept; len(got) != want {
			t.Errorf("the store keeps %q, want %d", got, want)
		}
		s.StepClock(10 * time.Second)
	}
}
