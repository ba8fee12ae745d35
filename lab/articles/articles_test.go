// SPDX-License-Identifier: Apache-2.0

//go:build unix

package articles

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

const ttl = time.Minute // far longer than a test: nothing here expires by chance

func onRedis(t *testing.T, args ...string) *servers.RedisServer {
	t.Helper()
	return servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start(args...) })
}

// set is SET name owner NX PX ttl, and reports whether the lock was free.
func set(t *testing.T, s *servers.RedisServer, name, owner string, ttl time.Duration) bool {
	t.Helper()
	r := s.Do("SET", name, owner, "NX", "PX", ttl.Milliseconds())
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return r.Val() == "OK"
}

func get(t *testing.T, s *servers.RedisServer, name string) string {
	t.Helper()
	v, err := s.Do("GET", name).Text()
	must.OK(t, err)
	return v
}

// getset takes the lock by the recipe of SETNX and GETSET. The value is the time at which
// the lock ends, in milliseconds of the client's clock; now is that clock. between runs
// after the lock was found to be over and before it is taken.
func getset(t *testing.T, s *servers.RedisServer, name string, now int64, between func()) bool {
	t.Helper()
	end := strconv.FormatInt(now+ttl.Milliseconds(), 10)
	n, err := s.Do("SETNX", name, end).Int()
	must.OK(t, err)
	if n == 1 {
		return true
	}
	old := get(t, s, name)
	if at, err := strconv.ParseInt(old, 10, 64); err != nil || at >= now {
		return false
	}
	between()
	current, err := s.Do("GETSET", name, end).Text()
	must.OK(t, err)
	return current == old
}

// TestSetnxAndGetset: the recipe compares the clocks of two clients, and a client that
// does not get the lock changes it.
func TestSetnxAndGetset(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	now := time.Now().UnixMilli()
	t.Run("a clock that is ahead", func(t *testing.T) {
		if !getset(t, s, "a", now, nil) {
			t.Fatal("the first client did not get a free lock")
		}
		if getset(t, s, "a", now, nil) {
			t.Fatal("a client with the same clock got a lock that is held")
		}
		ahead := now + 2*ttl.Milliseconds()
		if !getset(t, s, "a", ahead, func() {}) {
			t.Error("a clock that is ahead by two TTLs did not break the lock")
		}
	})
	t.Run("a loser moves the end of the winner", func(t *testing.T) {
		getset(t, s, "b", now, nil)
		later := now + 2*ttl.Milliseconds()
		winner := ""
		lost := !getset(t, s, "b", later+1, func() { // both have read the lock that is over
			if !getset(t, s, "b", later, func() {}) {
				t.Error("the first of two did not get a lock that is over")
			}
			winner = get(t, s, "b")
		})
		if end := get(t, s, "b"); !lost || end == winner {
			t.Errorf("lost %v, the value is %s and was %s; want the loser's", lost, end, winner)
		}
	})
}

// TestDeleteAfterACheckOfTheTime: the holder checks that its time is not over, and is
// paused before DEL.
func TestDeleteAfterACheckOfTheTime(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	const short = 300 * time.Millisecond
	began := time.Now()
	if !set(t, s, "x", "a", short) {
		t.Fatal("a did not get a free lock")
	}
	if time.Since(began) >= short {
		t.Skip("the machine is too slow: the time is over before the check")
	}
	// Here a is paused.
	must.OK(t, servers.Await("the lock expires", func() bool { return set(t, s, "x", "b", ttl) }))
	if n, err := s.Do("DEL", "x").Int(); n != 1 || err != nil {
		t.Fatalf("a deleted %d keys, %v", n, err)
	}
	if !set(t, s, "x", "c", ttl) {
		t.Error("c did not get the lock; want b's lock deleted by a")
	}
}

// TestRedlockNodeRestartsEmpty: a holds on two of three nodes, one of which restarts
// without its data and votes again at once.
func TestRedlockNodeRestartsEmpty(t *testing.T) {
	t.Parallel()
	var nodes []*servers.RedisServer
	for range 3 {
		nodes = append(nodes, onRedis(t))
	}
	votes := func(owner string, asked ...int) (n int) {
		for _, i := range asked {
			if set(t, nodes[i], "x", owner, ttl) {
				n++
			}
		}
		return n
	}
	if n := votes("a", 1, 2); n != 2 { // the first node does not answer a in time
		t.Fatalf("a has %d votes, want 2", n)
	}
	if n := votes("b", 0, 1, 2); n != 1 {
		t.Fatalf("b has %d votes, want 1", n)
	}
	if _, err := nodes[0].Do("DEL", "x").Int(); err != nil { // b has no majority and gives back
		t.Fatal(err)
	}
	must.OK(t, nodes[1].Restart())
	if n := votes("b", 0, 1, 2); n != 2 {
		t.Errorf("after the restart b has %d votes, want a majority while a holds", n)
	}
}

// TestFsyncIsNotReplication: with appendfsync always a grant is on the master's disk, and
// the replica that is promoted does not have it.
func TestFsyncIsNotReplication(t *testing.T) {
	t.Parallel()
	master := onRedis(t, "--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0")
	stream, err := servers.NewProxy(master.Addr)
	must.OK(t, err)
	t.Cleanup(stream.Close)
	replica := onRedis(t, "--appendonly", "yes", "--appendfsync", "always", "--replicaof", "127.0.0.1 "+strconv.Itoa(stream.Port))
	must.OK(t, servers.Await("replication", func() bool { return replica.Info("replication", "master_link_status") == "up" }))
	stream.Close() // the replica lags from here on
	if !set(t, master, "x", "a", ttl) {
		t.Fatal("a did not get a free lock")
	}
	master.Kill()
	must.OK(t, replica.Do("REPLICAOF", "NO", "ONE").Err())
	if !set(t, replica, "x", "b", ttl) {
		t.Error("b did not get the lock; want the grant lost with the master")
	}
}

// TestRedlockOnACluster: only one of the masters of a cluster grants the lock of a name;
// the others refuse, so there is no majority.
func TestRedlockOnACluster(t *testing.T) {
	t.Parallel()
	cluster := servers.Test(t, func() (*servers.RedisCluster, error) { return servers.Redis.StartCluster(5 * time.Second) })
	granted, moved := 0, 0
	for _, n := range cluster.Nodes[:3] {
		switch r := n.Do("SET", "x", "a", "NX", "PX", ttl.Milliseconds()); {
		case r.Err() == nil && r.Val() == "OK":
			granted++
		case r.Err() != nil && strings.HasPrefix(r.Err().Error(), "MOVED"):
			moved++
		default:
			t.Errorf("a master answers %v, %v", r.Val(), r.Err())
		}
	}
	if granted != 1 || moved != 2 {
		t.Errorf("%d masters granted the lock and %d refused, want 1 and 2", granted, moved)
	}
}
