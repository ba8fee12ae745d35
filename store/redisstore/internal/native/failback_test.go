// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// failback is two servers that take over from each other, behind one address that leads to the master.
type failback struct {
	t     *testing.T
	a, b  *redistest.Server
	proxy *servers.Proxy
	line  *timeline
	opts  native.Options
	ttl   time.Duration
}

// newFailback starts a, which is the master, and b, which copies a.
func newFailback(t *testing.T, grace bool) *failback {
	t.Helper()
	f := &failback{t: t, a: redistest.Start(t), b: redistest.Start(t), line: newTimeline(t), ttl: 2 * time.Second}
	f.opts = native.Options{Grace: grace, MaxTTL: f.ttl}
	f.front()
	f.follow(f.b, f.a)
	redistest.WaitFor(t, "b copies a", func() bool { return f.b.Info("replication", "master_link_status") == "up" })
	return f
}

// front makes the address of the master.
func (f *failback) front() {
	f.t.Helper()
	proxy, err := servers.NewProxy(f.a.Addr)
	must.OK(f.t, err)
	f.t.Cleanup(func() { proxy.Close() })
	f.proxy = proxy
}

func (f *failback) follow(replica, master *redistest.Server) {
	f.t.Helper()
	f.do(replica, "REPLICAOF", "127.0.0.1", master.Port)
}

func (f *failback) promote(s *redistest.Server) { f.t.Helper(); f.do(s, "REPLICAOF", "NO", "ONE") }

func (f *failback) do(s *redistest.Server, args ...any) {
	f.t.Helper()
	must.OK(f.t, s.Do(args...).Err())
}

// lead leads all clients to a server.
func (f *failback) lead(s *redistest.Server) {
	f.proxy.Retarget(s.Addr)
	f.proxy.Cut()
}

// come returns a process with its own connections to the master.
func (f *failback) come(name string) *party {
	f.t.Helper()
	store := libraries[0].open(f.t, login{Addr: f.proxy.Addr}, &f.opts)
	return join(f.t, f.line, name, store, fencelock.Options{TTL: f.ttl})
}

// copied waits until b has everything that a has.
func (f *failback) copied() {
	f.t.Helper()
	redistest.WaitFor(f.t, "b has all of a", func() bool {
		return f.a.Info("replication", "master_repl_offset") == f.b.Info("replication", "slave_repl_offset")
	})
}

// higher checks that a lock has a higher token than an earlier one.
func higher(t *testing.T, next, before *fencelock.Lease) {
	t.Helper()
	if next.Token() <= before.Token() {
		t.Errorf("token %v after %v", next.Token(), before.Token())
	}
}

// passes checks that a server that took over again with its old data keeps a lock for its holder, or lets the
// holder lose it, before another process gets it with a higher token.
func (f *failback) passes(from *party, held *fencelock.Lease, to *party) {
	f.t.Helper()
	next := to.start("x")
	redistest.WaitFor(f.t, "the holder keeps its lease or loses it", func() bool {
		return held.Err() != nil || f.opts.Grace && from.status("x").Grace == 0
	})
	if held.Err() == nil {
		if next.over() {
			f.t.Error("two processes hold the lock")
		}
		wantHeld(f.t, from, held)
		unlock(f.t, held)
	}
	higher(f.t, next.wait(f.t, f.ttl+slack), held)
}

// replaced lets b take over from a with and without grace, and one process hold a lock there. back leads the processes to a again.
func replaced(t *testing.T, back func(f *failback, two *party)) {
	t.Parallel()
	for _, grace := range []bool{true, false} {
		t.Run(fmt.Sprintf("grace=%t", grace), func(t *testing.T) {
			t.Parallel()
			f := newFailback(t, grace)
			one, two := f.come("one"), f.come("two")
			unlock(t, one.lock("x"))
			unlock(t, two.lock("warm"))
			f.copied()
			f.promote(f.b)
			f.lead(f.b)
			held := one.lock("x")
			back(f, two)
			f.lead(f.a)
			f.passes(one, held, two)
		})
	}
}

// TestFailbackWithOldDataStartsAnew: b took over and granted a lock, and died before a had copied anything. a was made
// a replica and is promoted again, with its own old data and without a restart. It must not go on where it was.
func TestFailbackWithOldDataStartsAnew(t *testing.T) {
	replaced(t, func(f *failback, two *party) {
		if !f.opts.Grace { // with grace a process need not have been there
			unlock(f.t, two.lock("warm"))
		}
		f.b.Kill()
		f.follow(f.a, f.b)
		f.promote(f.a)
	})
}

// TestFailbackIsNoticedByAProcessThatKnowsTheOther: a was cut off and never learned that b took over. A
// process that was at b makes a begin a new incarnation.
func TestFailbackIsNoticedByAProcessThatKnowsTheOther(t *testing.T) {
	replaced(t, func(f *failback, two *party) { unlock(f.t, two.lock("warm")) })
}

// TestSwappedDatabaseStartsAnew: another database takes the place of the one with the locks. A process that used the
// namespace before makes the older data begin a new incarnation.
func TestSwappedDatabaseStartsAnew(t *testing.T) {
	t.Parallel()
	f := newFailback(t, true)
	early, err := newGoRedis(redis.NewClient(&redis.Options{Addr: f.a.Addr, DB: 1}), &f.opts)
	must.OK(t, err)
	unlock(t, join(t, f.line, "early", early, fencelock.Options{TTL: f.ttl}).lock("warm"))
	one, two := f.come("one"), f.come("two")
	held := one.lock("x")
	unlock(t, two.lock("warm"))
	f.do(f.a, "SWAPDB", 0, 1)
	next := two.start("x")
	one.await(fencelock.SessionResumed, 1)
	wantHeld(t, one, held)
	unlock(t, held)
	higher(t, next.wait(t, f.ttl+slack), held)
}

// TestNewReplicaEndsNoIncarnation: a master to which the first replica connects gets another replication id, too. It was not replaced,
// so no grace period begins.
func TestNewReplicaEndsNoIncarnation(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	f := &failback{t: t, a: a, b: b, line: newTimeline(t), ttl: 2 * time.Second}
	f.opts = native.Options{Grace: true, MaxTTL: f.ttl}
	f.front()
	one := f.come("one")
	unlock(t, one.lock("x"))
	plain := redis.NewClient(&redis.Options{Addr: a.Addr})
	defer plain.Close()
	marker := func() string { return plain.HGet(t.Context(), bucketOf("fencelock"), "m").Val() }
	before := marker()
	id := a.Info("replication", "master_replid")
	f.follow(b, a)
	redistest.WaitFor(t, "b copies a", func() bool { return b.Info("replication", "master_link_status") == "up" })
	if a.Info("replication", "master_replid") == id {
		t.Fatal("the replication id is the same, so this shows nothing")
	}
	redistest.WaitFor(t, "the marker has the new id", func() bool {
		unlock(t, one.lock("x"))
		return marker()[14:] != before[14:]
	})
	if marker()[:7] != before[:7] {
		t.Error("a new incarnation began")
	}
	one.never(fencelock.SessionReset)
}

// TestFailbackWithAShortBacklogStartsAnew: a forgets its second replication id as soon as it has no replicas, because of its
// repl-backlog-ttl. It was a replica all the same, and its own data are old.
func TestFailbackWithAShortBacklogStartsAnew(t *testing.T) {
	replaced(t, func(f *failback, two *party) {
		f.b.Kill()
		f.follow(f.a, f.b)
		// Not before: a master with neither replicas nor a backlog never looks at its second id again.
		f.do(f.a, "CONFIG", "SET", "repl-backlog-ttl", 1)
		f.promote(f.a)
		redistest.WaitFor(f.t, "a forgets its second id", func() bool {
			return strings.Trim(f.a.Info("replication", "master_replid2"), "0") == ""
		})
	})
}

// TestWritableReplicaGrantsNothing: a replica with replica-read-only no accepts every command of the store, and what
// its master grants it does not know in time. It grants nothing: neither to a process that comes, nor, from the next check of its
// replication id on, to one that used it when it was the master.
func TestWritableReplicaGrantsNothing(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t, "--replica-read-only", "no")
	f := &failback{t: t, a: a, b: b, line: newTimeline(t), ttl: 2 * time.Second}
	open := func() (driver.Session, error) {
		store := libraries[0].open(t, login{Addr: b.Addr}, &native.Options{MaxTTL: f.ttl})
		s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard("x"), ID: driver.SessionID{1}, TTL: f.ttl})
		return s, err
	}
	rejected := func(err error) bool {
		return errors.Is(err, driver.ErrUnavailable) && strings.Contains(err.Error(), "replica-read-only")
	}
	s, err := open()
	must.OK(t, err)
	f.do(b, "REPLICAOF", "127.0.0.1", 1) // it copies nothing, and keeps its replication id
	seq := uint64(0)
	redistest.WaitFor(t, "the replica grants nothing", func() bool {
		seq++
		_, err := s.Attempt(t.Context(), &driver.Claim{Seq: seq, Name: fmt.Sprint(seq), Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		return rejected(err)
	})
	f.follow(b, a)
	redistest.WaitFor(t, "b copies a", func() bool { return b.Info("replication", "master_link_status") == "up" })
	if _, err := open(); !rejected(err) {
		t.Errorf("a session was opened at a replica: %v", err)
	}
}

// TestConnectionsToADemotedMasterAreReplaced: the name of the master is resolved to another server, and the last master, a replica now, keeps
// its connections open. The store finds the new master over new ones, and no lease is lost.
func TestConnectionsToADemotedMasterAreReplaced(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			f := newFailback(t, false)
			f.opts.MaxTTL, f.ttl = 10*time.Second, 5*time.Second
			come := func(name string) *party {
				return join(t, f.line, name, lib.open(t, login{Addr: f.proxy.Addr}, &f.opts), fencelock.Options{TTL: f.ttl})
			}
			one, two := come("one"), come("two")
			held := one.lock("x")
			next := two.start("x")
			two.await(fencelock.LeaseWaiting, 1)
			f.copied()
			f.do(f.a, "REPLICAOF", "127.0.0.1", f.b.Port)
			f.promote(f.b)
			f.proxy.RetargetNew(f.b.Addr)
			one.await(fencelock.SessionResumed, 1)
			wantHeld(t, one, held)
			// Each old connection that is left in the pool fails one more call, without effect.
			if err := held.Unlock(t.Context()); err != nil && !errors.Is(err, fencelock.ErrReleased) {
				t.Fatal(err)
			}
			higher(t, next.wait(t, f.ttl+slack), held)
			two.await(fencelock.SessionResumed, 1)
		})
	}
}
