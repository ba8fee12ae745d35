// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestLossesKeepTheLease: one server loses all of its data, or only the latest.
func TestLossesKeepTheLease(t *testing.T) {
	disk := []string{"--appendonly", "yes", "--appendfsync", "always"}
	paired(t, func(t *testing.T, flavor redistest.Flavor, lib library) {
		for name, c := range map[string]struct {
			args    []string
			prepare func(s *redistest.Server) (lose func())
		}{
			"restart with nothing": {nil, func(s *redistest.Server) func() { return s.Restart }},
			"restart with all":     {disk, func(s *redistest.Server) func() { return s.Restart }},
			"the last is missing":  {disk, (*redistest.Server).Copy},
			"FLUSHALL": {nil, func(s *redistest.Server) func() {
				return func() { s.Do("FLUSHALL") }
			}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := flavor.Start(t, c.args...)
				loss{
					lib: lib, to: login{Addr: server.Addr},
					ttl:     8 * time.Second,
					prepare: func(*timeline) func() { return c.prepare(server) },
				}.survives(t)
			})
		}
	})
}

// TestScriptFlush: a server may drop its cached scripts at any time, and no client notices.
func TestScriptFlush(t *testing.T) {
	paired(t, scriptFlush)
}

func scriptFlush(t *testing.T, flavor redistest.Flavor, lib library) {
	server := flavor.Start(t)
	opts := fencelock.Options{TTL: 9 * time.Second}
	a := join(t, nil, "a", lib.open(t, login{Addr: server.Addr}, nil), opts)
	b := join(t, nil, "b", lib.open(t, login{Addr: server.Addr}, nil), opts)
	held := a.lock("held")
	ctx, cancel := context.WithCancel(t.Context())
	var flusher sync.WaitGroup
	flusher.Go(func() {
		for tick := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			server.Do("SCRIPT", "FLUSH")
		}
	})
	defer flusher.Wait()
	defer cancel()
	last := held.Token()
	for end := time.Now().Add(opts.TTL / 2); time.Now().Before(end); { // so that it is kept alive once
		lease := a.lock("x")
		next := b.start("x")
		unlock(t, lease)
		second := next.wait(t, opts.TTL*11/10+slack)
		unlock(t, second)
		if lease.Token() <= last || second.Token() <= lease.Token() {
			t.Fatalf("tokens %v, %v, %v", last, lease.Token(), second.Token())
		}
		last = second.Token()
		<-time.After(5 * time.Millisecond) // others use the processors, too
	}
	wantHeld(t, b, held)
	for _, p := range []*party{a, b} {
		for _, kind := range []fencelock.EventKind{fencelock.SessionRenewalFailed, fencelock.SessionReset, fencelock.ClaimWithdrawn} {
			p.never(kind)
		}
	}
}

// TestSplitBrain: a replica takes over while the old master still serves clients that do not
// know. The stale side never has the higher token, whatever it grants and when.
func TestSplitBrain(t *testing.T) {
	everywhere(t, splitBrain)
}

func splitBrain(t *testing.T, flavor redistest.Flavor, lib library) {
	old := flavor.Start(t, "--repl-diskless-sync-delay", "0")
	replica := flavor.Start(t, "--replicaof", "127.0.0.1", strconv.Itoa(old.Port))
	redistest.WaitFor(t, "the replica follows", func() bool { return replica.Info("replication", "master_link_status") == "up" })
	opts := fencelock.Options{TTL: 6 * time.Second} // a call may take a part of it, and machines stall
	stale := join(t, nil, "stale", lib.open(t, login{Addr: old.Addr}, nil), opts)
	fresh := join(t, nil, "fresh", lib.open(t, login{Addr: replica.Addr}, nil), opts)
	before := stale.lock("x")
	must.OK(t, replica.Do("REPLICAOF", "NO", "ONE").Err())
	after := fresh.lock("x")
	var last fencelock.Token
	for range 100 {
		lease := stale.lock("y")
		last = lease.Token()
		unlock(t, lease)
	}
	first := fresh.lock("y")
	t.Logf("stale side: x %v, y %v; fresh side: x %v, y %v", before.Token(), last, after.Token(), first.Token())
	if after.Token() <= before.Token() || first.Token() <= last {
		t.Error("the fresh side has the lower token")
	}
}

// TestSplitBrainWithGrace is TestSplitBrain with grace. The holder is cut off together with
// the old master. If the master needs its replica to write, it can no longer keep the lease
// alive, and the holder is notified before the other side grants. Otherwise grace alone does
// not help: both clients hold the lock, and only the tokens distinguish them, as docs/redis.md
// says.
func TestSplitBrainWithGrace(t *testing.T) {
	t.Parallel()
	for _, needs := range []string{"1", "0"} {
		t.Run("min-replicas-to-write="+needs, func(t *testing.T) {
			paired(t, func(t *testing.T, flavor redistest.Flavor, lib library) {
				splitBrainWithGrace(t, flavor, lib, needs)
			})
		})
	}
}

func splitBrainWithGrace(t *testing.T, flavor redistest.Flavor, lib library, needs string) {
	const ttl = 5 * time.Second
	l := newTimeline(t)
	old := flavor.Start(t, "--repl-diskless-sync-delay", "0", "--min-replicas-to-write", needs)
	replica := flavor.Start(t, "--replicaof", "127.0.0.1", strconv.Itoa(old.Port))
	redistest.WaitFor(t, "the replica follows", func() bool { return replica.Info("replication", "master_link_status") == "up" })
	come := func(name, addr string) *party {
		s := lib.open(t, login{Addr: addr}, &native.Options{Grace: true, MaxTTL: ttl})
		return join(t, l, name, s, fencelock.Options{TTL: ttl, Require: fencelock.Correctness})
	}
	wantFindings(t, lib.open(t, login{Addr: old.Addr}, &native.Options{Grace: true, MaxTTL: ttl}).Store, map[string][]string{"0": {"min-replicas"}, "1": {"spare-replica"}}[needs]...)
	stale, fresh := come("stale", old.Addr), come("fresh", replica.Addr)
	held := stale.lock("x")
	redistest.WaitFor(t, "the replica knows of it", func() bool { return replica.Do("LLEN", bucketOf("fencelock")+":l:x").Val() == any(int64(2)) })
	must.OK(t, replica.Do("REPLICAOF", "NO", "ONE").Err())
	l.note("the replica was promoted")
	next := fresh.start("x").wait(t, 2*ttl+slack)
	if next.Token() <= held.Token() {
		t.Errorf("token %v after %v", next.Token(), held.Token())
	}
	overlap := held.Context().Err() == nil
	if overlap != (needs == "0") {
		t.Errorf("with min-replicas-to-write %s, both hold at a time: %t", needs, overlap)
	}
}
