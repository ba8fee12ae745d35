// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestMixedFleetOnEtcd: processes of fencelock and of package concurrency compete, and are killed and closed
// while they hold or wait. No two hold a lock at the same time.
func TestMixedFleetOnEtcd(t *testing.T) {
	byHand(t)
	cluster := servers.Test(t, func() (*servers.EtcdCluster, error) { return servers.Etcd(1) })
	playEtcd(t, etcdLibraries[0], cluster, func(s *etcdScene) {
		command := s.self()
		f := &mixedFleet{
			T: t, history: &history{t: t, until: time.Now().Add(*torture)}, kind: "mutex",
			names:   []string{s.name + "/a", s.name + "/b", s.name + "/c"},
			foreign: func(name string) string { return etcdPrefix + name },
			locks: func() *fencelock.Client {
				locks, err := fencelock.New(s.store(), &fencelock.Options{TTL: etcdTTL})
				must.OK(s, err)
				return locks
			},
			java: func() *peer { return &peer{launch(s, command, cluster.Members[0].Addr, millis(fleetTTL)), ""} },
		}
		f.run("etcd concurrency")
	})
}

// fleetTTL is the lease of the other side in a fleet: what each kill costs the others.
const fleetTTL = 5 * time.Second
