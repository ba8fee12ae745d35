// SPDX-License-Identifier: Apache-2.0

package interop

import (
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
			shared := start(t, peerOptions{Version: version, Servers: cluster.Addrs(), Watchdog: watchdog})
			(&stage{&redisson{version: version}, version, shared}).play(t, "lock", func(s *scene) {
				client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
				client.AddHook(s.refused)
				locks := s.clientOf(storeAt(t, client, "lock"), long)
				for i := range 3 { // on several masters
					one := s.at(fmt.Sprint("cluster/", version, "/", i))
					wakeJava(one, locks)
					wakeGo(one, locks)
				}
			})
		})
	}
}

func wakeJava(s *scene, locks *fencelock.Client) {
	s.Helper()
	results.noteTest(s.T, onACluster[0], s.version)
	java, l := s.other(), s.lock(locks)
	s.barred(s, java)
	waiting := s.asking(java)
	s.unlock(l)
	s.has(waiting)
	must.OK(s, java.unlock())
}

func wakeGo(s *scene, locks *fencelock.Client) {
	s.Helper()
	results.noteTest(s.T, onACluster[1], s.version)
	java := s.other()
	s.takes(java)
	s.busy(locks)
	waiting := s.locking(locks)
	must.OK(s, java.unlock())
	s.leaves(waiting)
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
