// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// clusterOfFacts starts a cluster whose first node owns slot 0.
func clusterOfFacts(t *testing.T) *servers.RedisCluster {
	t.Helper()
	byHand(t)
	if !*all {
		t.Skip("run it with -interop.all")
	}
	return servers.Test(t, func() (*servers.RedisCluster, error) { return servers.Redis.StartCluster(time.Hour) })
}

// TestProbeForShardedChannels: the versions that ask one node by SPUBLISH "" "" whether there are sharded channels. A node that does
// not own slot 0 answers MOVED, which they take for no. So two JVMs of one version may listen on different channels.
func TestProbeForShardedChannels(t *testing.T) {
	cluster := clusterOfFacts(t)
	for _, version := range []string{"3.22.0", "3.27.2"} {
		for i, seed := range cluster.Nodes[:3] {
			t.Run(fmt.Sprint(version, " by node ", i), func(t *testing.T) {
				for _, n := range cluster.Nodes {
					must.OK(t, n.Do("CONFIG", "RESETSTAT").Err())
				}
				// Two addresses are a cluster for the peer.
				java := &peer{start(t, peerOptions{Version: version, Servers: []string{seed.Addr, seed.Addr}, Watchdog: watchdog}), ""}
				var asked []int
				for i, n := range cluster.Nodes {
					if n.Info("commandstats", "cmdstat_spublish") != "" {
						asked = append(asked, i)
					}
				}
				s := &scene{T: t, name: fmt.Sprint("probe/", version, "/", i)}
				java.Must("a", "LOCK", "lock", s.name, long.Milliseconds())
				waiting := java.Ask("b", "LOCK", "lock", s.name, -1)
				s.listenedOn(cluster)
				sharded := s.listeners(cluster, "SHARDNUMSUB") > 0
				if len(asked) != 1 || sharded != (asked[0] == 0) {
					t.Errorf("it asked the nodes %v, and the first one has slot 0; the waiter listens on a sharded channel: %v", asked, sharded)
				}
				java.Must("a", "UNLOCK", "lock", s.name)
				must.OK(t, await(t, "lock() of the next", waiting).Err())
				java.Must("b", "UNLOCK", "lock", s.name)
			})
		}
	}
}

// listeners counts those of the lock's channel on all nodes.
func (s *scene) listeners(cluster *servers.RedisCluster, command string) (n int) {
	s.Helper()
	for _, node := range cluster.Nodes {
		got, err := node.Do("PUBSUB", command, "redisson_lock__channel:{"+s.name+"}").Slice()
		must.OK(s, err)
		count, ok := got[1].(int64)
		if !ok {
			s.Fatalf("PUBSUB %s: %v", command, got)
		}
		n += int(count)
	}
	return n
}

// TestFailedWait: a replica that does not answer makes WAIT fail, and the call of Java throws. From 3.52.0 on lock() takes the lock back
// and tries again before that; what lockAndGetToken takes stays for a lease, and so does what lock() of older versions takes.
func TestFailedWait(t *testing.T) {
	cluster := clusterOfFacts(t)
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			const lease = 6 * time.Second // a few times as long as WAIT takes
			java := &peer{start(t, peerOptions{Version: version, Servers: cluster.Addrs(), Watchdog: lease}), ""}
			tag := "{wait-" + version + "}"
			java.Must("a", "LOCK", "lock", tag, long.Milliseconds())
			_, master, err := cluster.Find(tag)
			must.OK(t, err)
			java.Must("a", "UNLOCK", "lock", tag)
			replica, err := cluster.ReplicaOf(master)
			must.OK(t, err)
			defer replica.Pause()()
			throws(t, java.Do("a", "LOCK", "lock", tag+"lock", -1))
			staysForALease(t, master, tag+"lock", compareVersions(version, "3.52.0") < 0)
			if compareVersions(version, "3.19.0") >= 0 { // which has fenced locks
				throws(t, java.Do("a", "TOKEN", "fenced", tag+"fenced"))
				staysForALease(t, master, tag+"fenced", true)
			}
		})
	}
}

func throws(t *testing.T, a answer) {
	t.Helper()
	if a.Word != "err" {
		t.Errorf("with a WAIT that fails: %v", a)
	}
}

// staysForALease checks whether a lock that Java does not hold is there, and that it is not renewed then.
func staysForALease(t *testing.T, master *servers.RedisServer, name string, want bool) {
	t.Helper()
	began := time.Now()
	left, err := master.Do("PTTL", name).Int()
	must.OK(t, err)
	if got := left > 0; got != want {
		t.Errorf("after the call %s has %d ms; want it to stay: %v", name, left, want)
	}
	must.OK(t, servers.Await(name+" lapses", func() bool { n, err := master.Do("EXISTS", name).Int(); return err == nil && n == 0 }))
	if gone := time.Since(began); want && gone < time.Duration(left)*time.Millisecond-time.Second {
		t.Errorf("%s was gone after %v, and had %d ms: it was taken back", name, gone, left)
	}
}
