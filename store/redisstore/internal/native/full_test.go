// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestFullMemory: when the server's memory is full no lock is granted, whether plain
// commands or scripts ask for it, and sessions are kept alive.
func TestFullMemory(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", lazy, scripted, batched} {
		t.Run("suffix="+suffix, func(t *testing.T) {
			t.Parallel()
			l := newListsIn(t, lists+"FullMemory"+suffix)
			l.open("ann", time.Minute)
			l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
			must.OK(t, l.plain.ConfigSet(t.Context(), "maxmemory", "1").Err())
			for i, terms := range []driver.Terms{{Weight: 1}, {Weight: 1, MaxHold: time.Hour}, {Weight: 1, Mode: driver.Shared}} {
				terms.Record = &driver.Record{}
				out, err := l.on["ann"].Attempt(t.Context(), &driver.Claim{Seq: uint64(2 + i), Name: fmt.Sprint("y", i), Terms: &terms, Queue: true})
				if err == nil {
					t.Errorf("a full server answered a claim for a new lock: %v", out.State)
				}
			}
			l.keepAlive("ann")
			found, err := l.on["ann"].Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"})
			if err != nil || found != driver.WasGranted {
				t.Errorf("the release found %v, %v", found, err)
			}
		})
	}
}

// TestTombstoneEndsWhileNoProcessDies: a tombstone is dropped after an hour although its session lives on and
// no process dies.
func TestTombstoneEndsWhileNoProcessDies(t *testing.T) {
	t.Parallel()
	p, client := newPretense(t, redistest.Start(t).Addr)
	store, err := newGoRedis(client, &native.Options{Namespace: lists + "TombstoneEnds" + lazy, MaxTTL: 10 * time.Hour})
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	must(err)
	must(p.write(t.Context()))
	s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 10 * time.Hour})
	must(err)
	_, err = s.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x", Tombstone: true})
	must(err)
	left := func() int {
		_, err := s.KeepAlive(t.Context())
		must(err)
		all, err := client.HGetAll(t.Context(), lists+"TombstoneEnds"+lazy+":{"+lists+"TombstoneEnds"+lazy+":0}").Result()
		must(err)
		n, _ := marks(all)
		return n
	}
	p.now = p.now.Add(59 * time.Minute)
	must(p.write(t.Context()))
	for range 20 {
		if n := left(); n != 1 {
			t.Fatalf("%d marks within an hour", n)
		}
	}
	p.now = p.now.Add(3 * time.Minute)
	must(p.write(t.Context()))
	redistest.WaitFor(t, "the mark is dropped", func() bool { return left() == 0 })
}
