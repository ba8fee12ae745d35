// SPDX-License-Identifier: Apache-2.0

package redissonstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/redissonstore"
	"github.com/redis/go-redis/v9"
)

// sessionKey is the key of a session.
func sessionKey(id driver.SessionID) string {
	h := id.String()
	return "fencelock_session:" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// lose makes the server lose a grant, as a failover to a replica without the last writes does: the
// lock and the entry in the list of the session.
func lose(t *testing.T, server *redistest.Server, id driver.SessionID, seq uint64, name string) {
	t.Helper()
	must.OK(t, server.Do("DEL", name).Err())
	n := strconv.FormatUint(seq, 10)
	if removed, err := server.Do("ZREMRANGEBYSCORE", sessionKey(id)+":claims", n, n).Int(); err != nil || removed != 1 {
		t.Fatalf("%d entries of claim %d are lost, %v", removed, seq, err)
	}
}

// kinds are options for each format, with a claim for each.
var kinds = map[string]*redissonstore.Options{"lock": nil, "read-write": {ReadWrite: true}}

// TestGrantThatTheServerLostIsReported: the session lives on, so only the process knows what it
// was granted. The other leases stay.
func TestGrantThatTheServerLostIsReported(t *testing.T) {
	t.Parallel()
	for kind, opts := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s, id := open(t, newStore(t, server, opts))
			for seq, name := range []string{"", "a", "b", "c"} {
				if seq > 0 {
					attempt(t, s, claim(uint64(seq), name), driver.Granted)
				}
			}
			lose(t, server, id, 2, "b")
			for range 2 { // until it is withdrawn
				wantBroken(t, s, 2)
			}
			for range 2 { // however often
				if found, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: 2, Name: "b"}); err != nil || found != driver.WasBroken {
					t.Errorf("the withdrawal found it %v, %v", found, err)
				}
			}
			wantBroken(t, s)
			for seq, name := range map[uint64]string{1: "a", 3: "c"} {
				if found, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: seq, Name: name}); err != nil || found != driver.WasGranted {
					t.Errorf("the withdrawal of %s found it %v, %v", name, found, err)
				}
			}
		})
	}
}

// wantBroken renews a session, which must report these claims as broken.
func wantBroken(t *testing.T, s driver.Session, want ...uint64) {
	t.Helper()
	renewal, err := s.KeepAlive(t.Context())
	must.OK(t, err)
	if got := slices.Sorted(slices.Values(renewal.Broken)); !slices.Equal(got, want) {
		t.Errorf("broken are %v, want %v", got, want)
	}
}

// TestUnlockOfAGrantThatTheServerLost: before a renewal has found it out.
func TestUnlockOfAGrantThatTheServerLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, id := open(t, newStore(t, server, nil))
	attempt(t, s, claim(1, "a"), driver.Granted)
	lose(t, server, id, 1, "a")
	for range 2 {
		if found, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "a"}); err != nil || found != driver.WasBroken {
			t.Errorf("the withdrawal found it %v, %v", found, err)
		}
	}
}

// TestHolderIsNotifiedOfAPartialLoss: of the lock that was lost, and of no other.
func TestHolderIsNotifiedOfAPartialLoss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locks, err := fencelock.New(newStore(t, server, nil), &fencelock.Options{TTL: 15 * time.Second})
	must.OK(t, err)
	t.Cleanup(func() { _ = locks.Close(context.Background()) })
	lost, err := locks.Mutex("lost").Lock(t.Context())
	must.OK(t, err)
	kept, err := locks.Mutex("kept").Lock(t.Context())
	must.OK(t, err)
	must.OK(t, server.Do("DEL", "lost").Err())
	keys, err := server.Do("KEYS", "fencelock_session:*:claims").StringSlice()
	must.OK(t, err)
	for _, key := range keys {
		entries, err := server.Do("ZRANGE", key, 0, -1).StringSlice()
		must.OK(t, err)
		for _, e := range entries {
			if strings.HasSuffix(e, ":lost") {
				must.OK(t, server.Do("ZREM", key, e).Err())
			}
		}
	}
	<-lost.Context().Done()
	if err := context.Cause(lost.Context()); !errors.Is(err, fencelock.ErrLost) {
		t.Errorf("the lease ended with %v", err)
	}
	must.OK(t, kept.Err())
	must.OK(t, kept.Unlock(t.Context()))
}

// TestListOfClaimsThatWasLostIsMadeAgain: the server evicted it. No lock was free in between.
func TestListOfClaimsThatWasLostIsMadeAgain(t *testing.T) {
	t.Parallel()
	for kind, opts := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s, id := open(t, newStore(t, server, opts))
			attempt(t, s, claim(1, "a"), driver.Granted)
			attempt(t, s, claim(2, "b"), driver.Granted)
			must.OK(t, server.Do("DEL", sessionKey(id)+":claims").Err())
			must.OK(t, server.Do("PEXPIRE", "a", 5_000).Err())
			wantBroken(t, s)
			if left, err := server.Do("PTTL", "a").Int(); err != nil || left <= 5_000 {
				t.Errorf("the lock was not renewed: %d ms left, %v", left, err)
			}
			if n, err := server.Do("ZCARD", sessionKey(id)+":claims").Int(); err != nil || n != 2 {
				t.Errorf("the list has %d claims, %v", n, err)
			}
			must.OK(t, s.Close(t.Context()))
			if n, err := server.Do("EXISTS", "a", "b").Int(); err != nil || n != 0 {
				t.Errorf("%d locks are left, %v", n, err)
			}
		})
	}
}

// TestReleaseThatTheServerLostIsRepeated: the lock would stay taken while the session lives.
func TestReleaseThatTheServerLostIsRepeated(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, id := open(t, newStore(t, server, nil))
	attempt(t, s, claim(1, "a"), driver.Granted)
	attempt(t, s, claim(2, "b"), driver.Granted)
	hash, err := server.Do("HGETALL", "a").StringSlice()
	must.OK(t, err)
	entries, err := server.Do("ZRANGEBYSCORE", sessionKey(id)+":claims", 1, 1).StringSlice()
	must.OK(t, err)
	if found, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "a"}); err != nil || found != driver.WasGranted {
		t.Fatalf("the withdrawal found it %v, %v", found, err)
	}
	command := []any{"HSET", "a"}
	for _, word := range hash {
		command = append(command, word)
	}
	must.OK(t, server.Do(command...).Err())
	must.OK(t, server.Do("PEXPIRE", "a", long.Milliseconds()).Err())
	must.OK(t, server.Do("ZADD", sessionKey(id)+":claims", 1, entries[0]).Err())
	wantBroken(t, s)
	if n, err := server.Do("EXISTS", "a").Int(); err != nil || n != 0 {
		t.Errorf("the lock that was unlocked is taken, %v", err)
	}
	if n, err := server.Do("EXISTS", "b").Int(); err != nil || n != 1 {
		t.Errorf("the lock that is held is free, %v", err)
	}
	// A session that is resumed does not know what it had, and keeps it.
	again, _, err := newStore(t, server, nil).Open(t.Context(), driver.OpenRequest{Shard: "0", ID: id, TTL: long})
	must.OK(t, err)
	wantBroken(t, again)
	attempt(t, again, claim(7, "c"), driver.Granted)
	wantBroken(t, again)
	if n, err := server.Do("EXISTS", "b", "c").Int(); err != nil || n != 2 {
		t.Errorf("%d of 2 locks are held after the session was resumed, %v", n, err)
	}
}

// TestClusterWithoutShardedChannels: as of servers before 7.0. A waiter is woken by a plain
// channel, and asks for a sharded one only now and then.
func TestClusterWithoutShardedChannels(t *testing.T) {
	t.Parallel()
	cluster := redistest.Redis.StartCluster(t, redistest.Never, "--rename-command", "SSUBSCRIBE", "", "--rename-command", "SPUBLISH", "")
	holder, waiter := clusterClient(t, cluster), clusterClient(t, cluster)
	l, err := holder.Mutex("x").Lock(t.Context())
	must.OK(t, err)
	got := make(chan error, 1)
	go func() {
		l, err := waiter.Mutex("x").Lock(t.Context())
		if err == nil {
			err = l.Unlock(t.Context())
		}
		got <- err
	}()
	must.OK(t, servers.Await("the waiter listens", func() bool {
		return slices.ContainsFunc(cluster.Nodes, func(n *servers.RedisServer) bool {
			found, err := n.Do("PUBSUB", "NUMSUB", "redisson_lock__channel:{x}").Slice()
			return err == nil && len(found) == 2 && fmt.Sprint(found[1]) != "0"
		})
	}))
	connections := func() (n int) {
		for _, node := range cluster.Nodes {
			each, _ := strconv.Atoi(node.Info("stats", "total_connections_received"))
			n += each
		}
		return n
	}
	before := connections()
	time.Sleep(3 * time.Second) // 60 connections at a retry every 50 ms
	if more := connections() - before; more > 20 {
		t.Errorf("the waiter made %d connections in 3 s", more)
	}
	must.OK(t, l.Unlock(t.Context()))
	must.OK(t, <-got)
}

// clusterClient returns a client whose store is a cluster.
func clusterClient(t *testing.T, cluster *redistest.Cluster) *fencelock.Client {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	t.Cleanup(func() { _ = client.Close() })
	store, err := redissonstore.New(client, nil)
	must.OK(t, err)
	return newClient(t, store)
}

// TestUnlockAfterTheServerLostTheSession: it lost all its data, and another process has the lock before a
// renewal has noticed the loss.
func TestUnlockAfterTheServerLostTheSession(t *testing.T) {
	t.Parallel()
	for kind, opts := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			store := newStore(t, server, opts)
			s, _ := open(t, store)
			attempt(t, s, claim(1, "a"), driver.Granted)
			must.OK(t, server.Do("FLUSHALL").Err())
			other, _ := open(t, store)
			attempt(t, other, claim(1, "a"), driver.Granted)
			if found, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "a"}); !errors.Is(err, driver.ErrGone) {
				t.Errorf("the withdrawal found it %v, %v", found, err)
			}
			if found, err := other.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "a"}); err != nil || found != driver.WasGranted {
				t.Errorf("the withdrawal of the other found it %v, %v", found, err)
			}
		})
	}
}

// TestOnceWithoutItsMarkIsAnError: the server lost its data before the mark could be left.
func TestOnceWithoutItsMarkIsAnError(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locks, err := fencelock.New(newStore(t, server, nil), &fencelock.Options{TTL: time.Minute})
	must.OK(t, err)
	t.Cleanup(func() { _ = locks.Close(context.Background()) })
	_, err = locks.Once("job", time.Hour).Do(t.Context(), "today", func(context.Context, *fencelock.Lease) error {
		return server.Do("FLUSHALL").Err()
	})
	if !errors.Is(err, fencelock.ErrLost) {
		t.Errorf("Once: %v", err)
	}
}
