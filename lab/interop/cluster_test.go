// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/redis/go-redis/v9"
)

// TestRedissonOnACluster: waiters are woken in both directions. Older versions of Redisson use
// plain channels, newer ones sharded channels, so all of them run at once.
func TestRedissonOnACluster(t *testing.T) {
	if err := servers.Redis.Need(); err != nil {
		t.Skip(err)
	}
	cluster := servers.Test(t, func() (*servers.RedisCluster, error) { return servers.Redis.StartCluster(time.Hour) })
	for _, version := range chosen() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			java := &peer{start(t, peerOptions{Version: version, Servers: cluster.Addrs(), Watchdog: watchdog}), ""}
			client, refused := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()}), &refusals{}
			client.AddHook(refused)
			locks, err := fencelock.New(storeAt(t, client, "lock"), &fencelock.Options{TTL: long})
			must.OK(t, err)
			t.Cleanup(func() { _ = locks.Close(context.Background()) })
			for i := range 3 { // on several masters
				name := fmt.Sprint("cluster/", version, "/", i)
				s := &scene{T: t, version: version, kind: "lock", name: name}
				wakeJava(s, java, locks)
				wakeGo(s, java, &waiter{locks, refused})
			}
		})
	}
}

func wakeJava(s *scene, java *peer, locks *fencelock.Client) {
	s.Helper()
	results.noteTest(s.T, onACluster[0], s.version)
	l := s.lock(locks)
	if got := java.Do("a", "TRY", s.kind, s.name, 0, -1); got.Word != "no" {
		s.Fatalf("tryLock beside a Go holder: %v", got)
	}
	waiting := java.Ask("a", "LOCK", s.kind, s.name, -1)
	s.waits(java, "a")
	s.unlock(l)
	must.OK(s, await(s, "lock() in Java", waiting).Err())
	java.Must("a", "UNLOCK", s.kind, s.name)
}

func wakeGo(s *scene, java *peer, w *waiter) {
	s.Helper()
	results.noteTest(s.T, onACluster[1], s.version)
	java.Must("a", "LOCK", s.kind, s.name, long.Milliseconds())
	s.busy(w.Client)
	waiting := w.locking(s, s.name, w.Mutex(s.name).Lock)
	java.Must("a", "UNLOCK", s.kind, s.name)
	s.unlock(s.granted(waiting).lease)
}

// listenedOn waits until a process listens for the lock on some node.
func (s *scene) listenedOn(cluster *servers.RedisCluster) {
	s.Helper()
	channel := "redisson_lock__channel:{" + s.name + "}"
	must.OK(s, servers.Await("a process listens", func() bool {
		for _, node := range cluster.Nodes {
			for _, command := range []string{"NUMSUB", "SHARDNUMSUB"} {
				got, err := node.Do("PUBSUB", command, channel).Slice()
				if err == nil && len(got) == 2 && fmt.Sprint(got[1]) != "0" {
					return true
				}
			}
		}
		return false
	}))
}
