// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// listsOn is how many keys there are of locks, and of names to look at, on a server.
func listsOn(t *testing.T, server *redistest.Server) (n int) {
	t.Helper()
	keys, err := server.Do("KEYS", "*").StringSlice()
	must.OK(t, err)
	for _, key := range keys {
		if strings.Contains(key, "}:l:") || strings.Contains(key, "}:g:") || strings.HasSuffix(key, "}:k") {
			n++
		}
	}
	return n
}

// anOpenIn opens a session in the bucket of a name.
func anOpenIn(t *testing.T, store driver.Store, name string) driver.Session {
	t.Helper()
	s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard(name), ID: driver.NewSessionID(), TTL: time.Minute})
	must.OK(t, err)
	return s
}

// makeMark takes a lock and leaves it kept for a moment: by the mark of an occurrence, or by a MinHold.
func makeMark(t *testing.T, s driver.Session, seq uint64, name string) {
	terms := driver.Terms{Weight: 1, Record: &driver.Record{}}
	w := driver.Withdrawal{Seq: seq, Name: name}
	switch seq % 3 {
	case 0:
		w.KeepFor = 50 * time.Millisecond
	case 1:
		terms.MinHold = 50 * time.Millisecond
	default:
		terms.Mode, terms.MinHold = driver.Shared, 50*time.Millisecond
	}
	out, err := s.Attempt(t.Context(), &driver.Claim{Seq: seq, Name: name, Terms: &terms})
	if err == nil && out.State == driver.Granted {
		_, err = s.Withdraw(t.Context(), w)
	}
	if err != nil || out.State != driver.Granted {
		t.Error(out.State, err)
	}
}

// TestEndedMarksAreRemoved: a lock that MinHold keeps, and the mark of an occurrence of a job, have names that no process may
// ask for again. Once they have ended, a process that lives removes them, although no process died.
func TestEndedMarksAreRemoved(t *testing.T) {
	t.Parallel()
	const marks = 10_000
	server := redistest.Start(t)
	var sessions []driver.Session
	for i, lib := range libraries {
		s := anOpenIn(t, lib.open(t, login{Addr: server.Addr}, nil), "")
		sessions = append(sessions, s)
		var wg sync.WaitGroup
		for g := range 10 {
			wg.Go(func() {
				for seq := g; seq < marks/2 && !t.Failed(); seq += 10 {
					makeMark(t, s, uint64(seq+1), fmt.Sprint("job ", i, "@", seq))
				}
			})
		}
		wg.Wait()
	}
	if err := sessions[0].Close(t.Context()); err != nil {
		t.Error(err)
	}
	left := -1
	for end := time.Now().Add(30 * time.Second); left != 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := sessions[1].KeepAlive(t.Context()); err != nil {
			t.Fatal(err)
		}
		left = listsOn(t, server)
	}
	figure.Print("redis-keys-left-by-marks", left, figure.Exactly(0))
	if left > 0 {
		t.Errorf("%d keys of %d marks are left", left, marks)
	}
}

// TestEndedMarksAreRemovedOnACluster: each bucket has its own.
func TestEndedMarksAreRemovedOnACluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.ClusterNode(t)...)
	must.OK(t, server.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383").Err())
	redistest.WaitFor(t, "the cluster is up", func() bool { return server.ClusterInfo("cluster_state") == "ok" })
	for i, lib := range libraries {
		store := lib.open(t, login{Nodes: []string{server.Addr}}, &native.Options{Buckets: 8})
		sessions := map[string]driver.Session{}
		for seq := range uint64(200) {
			name := fmt.Sprint("job ", i, "@", seq)
			shard := store.Shard(name)
			if sessions[shard] == nil {
				sessions[shard] = anOpenIn(t, store, name)
			}
			makeMark(t, sessions[shard], seq+1, name)
		}
		redistest.WaitFor(t, "all marks are removed", func() bool {
			for _, s := range sessions {
				if _, err := s.KeepAlive(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return listsOn(t, server) == 0
		})
	}
}

// TestShortLivedProcessesRemoveMarks: a process that runs a job and ends, before its first keep-alive, removes marks of others.
func TestShortLivedProcessesRemoveMarks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	run := func(i, marks int) {
		s := anOpenIn(t, libraries[i%2].open(t, login{Addr: server.Addr}, nil), "")
		for seq := range uint64(marks) {
			makeMark(t, s, seq+1, fmt.Sprint("job ", i, "@", seq))
		}
		must.OK(t, s.Close(t.Context()))
	}
	const marks = 300
	run(0, marks)
	// Those of the last processes may not have ended when they were closed.
	next := 1
	redistest.WaitFor(t, "the marks of the first process are removed", func() bool {
		if run(next, 1); next > 200 {
			t.Fatalf("%d keys of %d marks are left", listsOn(t, server), marks)
		}
		next++
		n, err := server.Do("EXISTS", bucketOf("fencelock")+":l:job 0@0", bucketOf("fencelock")+fmt.Sprint(":l:job 0@", marks-1)).Int()
		return err == nil && n == 0 && listsOn(t, server) < marks/10
	})
}

// TestLockReleasedInAGraceLeavesNothing: the number of a lock that was reclaimed is kept until the end of the grace period,
// and then removed, although no process asks for the lock again.
func TestLockReleasedInAGraceLeavesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := libraries[0].open(t, login{Addr: server.Addr}, &native.Options{Grace: true, MaxTTL: 2 * time.Second})
	id := driver.NewSessionID()
	open := func(before driver.Session) driver.Session {
		s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard(""), ID: id, Before: before, TTL: 2 * time.Second})
		must.OK(t, err)
		return s
	}
	claim := driver.Claim{Seq: 1, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
	s := open(nil)
	var token driver.Token
	redistest.WaitFor(t, "the first grace period is over", func() bool {
		if _, err := s.KeepAlive(t.Context()); err != nil {
			t.Fatal(err)
		}
		out, err := s.Attempt(t.Context(), &claim)
		token = out.Token
		return err == nil && out.State == driver.Granted
	})
	must.OK(t, server.Do("FLUSHALL").Err())
	s = open(s)
	if kept, err := s.Reclaim(t.Context(), []driver.Held{{Claim: claim, Token: token}}, true); err != nil || !kept[0] {
		t.Fatal(kept, err)
	}
	if _, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"}); err != nil {
		t.Fatal(err)
	}
	number := func() bool {
		n, err := server.Do("HEXISTS", bucketOf("fencelock"), "rx").Int()
		must.OK(t, err)
		return n == 1
	}
	if !number() {
		t.Error("the number is gone in the grace period")
	}
	redistest.WaitFor(t, "the number is removed", func() bool {
		if _, err := s.KeepAlive(t.Context()); err != nil {
			t.Fatal(err)
		}
		return !number()
	})
}
