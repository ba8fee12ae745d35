// SPDX-License-Identifier: Apache-2.0

package memcachestore

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestLateWriteAfterATombstoneIsRefused holds an attempt between its read and its
// write, tombstones its claim, and lets the write go on: whatever the lock item was,
// the write must not be stored.
func TestLateWriteAfterATombstoneIsRefused(t *testing.T) {
	server := servers.Test(t, func() (*servers.MemcachedServer, error) { return servers.Memcached() })
	store, err := New(server.Addr, nil)
	must.OK(t, err)
	defer store.Close()
	open := func() *session {
		s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute})
		must.OK(t, err)
		return s.(*session)
	}
	claim := func(seq uint64, name string) *driver.Claim {
		return &driver.Claim{Seq: seq, Name: name, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
	}
	hold := func(s *session, name string) {
		if out, err := s.Attempt(t.Context(), claim(1, name)); err != nil || out.State != driver.Granted {
			t.Fatalf("%q: %v, %v", name, out.State, err)
		}
	}
	states := map[string]func(name string){
		"never locked": func(string) {},
		"given back": func(name string) {
			s := open()
			hold(s, name)
			if _, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: name}); err != nil {
				t.Fatal(err)
			}
		},
		"left by a dead session": func(name string) {
			s := open()
			hold(s, name)
			must.OK(t, s.Close(t.Context()))
		},
		"held by another": func(name string) { hold(open(), name) },
	}
	for name, prepare := range states {
		prepare(name)
		s := open()
		c := &call{ctx: t.Context(), client: store.client, op: "attempt"}
		_, lock, err := s.readLock(c, name)
		must.OK(t, err)
		if _, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: 7, Name: name, Tombstone: true}); err != nil {
			t.Fatal(err)
		}
		mine := lockItem{Name: name, Session: s.id, Generation: s.generation, Claim: 7}
		if stored, err := c.write(store.keys.lock(name), lock.raw, &mine, 0); stored || err != nil {
			t.Errorf("%s: the late write was stored: %v, %v", name, stored, err)
		}
		if out, err := s.Attempt(t.Context(), claim(7, name)); err != nil || out.State != driver.Absent {
			t.Errorf("%s: a late attempt is %v, %v; want absent", name, out.State, err)
		}
	}
}

// TestOldTombstonesAreRemoved: the item of a session that lives long does not grow with every claim whose outcome
// was unknown.
func TestOldTombstonesAreRemoved(t *testing.T) {
	server := servers.Test(t, func() (*servers.MemcachedServer, error) { return servers.Memcached() })
	store, err := New(server.Addr, nil)
	must.OK(t, err)
	defer store.Close()
	opened, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute})
	must.OK(t, err)
	s := opened.(*session)
	tombstone := func(seq uint64) []uint64 {
		t.Helper()
		if _, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: seq, Name: "x", Tombstone: true}); err != nil {
			t.Fatal(err)
		}
		items, err := (&call{ctx: t.Context(), client: store.client, op: "read"}).read(s.key())
		must.OK(t, err)
		own, err := parse[sessionItem](items[s.key()])
		must.OK(t, err)
		return own.v.Tombstoned
	}
	for seq := range uint64(100) {
		tombstone(seq)
	}
	for seq := range uint64(90) { // eleven minutes later
		s.graves.since[seq] = time.Now().Add(-11 * time.Minute)
	}
	if got := tombstone(100); len(got) != 11 || got[0] != 90 || got[10] != 100 {
		t.Errorf("the tombstones are %v, want those of the last ten minutes, 90 to 100", got)
	}
	s.graves.since = nil // the session was opened again
	if got := tombstone(101); len(got) != 12 {
		t.Errorf("the tombstones are %v, want all that a new value of the session finds, and one more", got)
	}
}
