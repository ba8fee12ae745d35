// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// rig is a cluster for some cases at a time.
type rig struct {
	cluster    *etcdtest.Cluster
	ttl, slack time.Duration
	// exclusive: the cases do things to the servers, so there is one at a time.
	exclusive bool
}

// spaces gives every case its own namespace.
var spaces atomic.Int64

// harness is for one case: two clients that share nothing but the cluster.
func (r *rig) harness(t *testing.T) *drivertest.Harness {
	opts := etcdstore.Options{Namespace: fmt.Sprintf("space/%d", spaces.Add(1))}
	var clients []*clientv3.Client
	h := &drivertest.Harness{
		Open: func() (driver.Store, error) {
			client, err := r.cluster.Client()
			if err != nil {
				return nil, err
			}
			clients = append(clients, client)
			t.Cleanup(func() { _ = client.Close() })
			return etcdstore.New(client, &opts)
		},
		TTL: r.ttl, Slack: r.slack, Soon: 15 * time.Second,
	}
	if r.exclusive {
		h.Sever = r.cluster.Pause
		h.Restart = func() error {
			snapshot, err := r.cluster.Snapshot()
			if err != nil {
				return err
			}
			if err := r.cluster.Restore(snapshot); err != nil {
				return err
			}
			return answer(t.Context(), clients)
		}
	}
	return h
}

// answer waits until the clients have found the server again. That the first call
// after a restart may fail is so, and known to the core.
func answer(ctx context.Context, clients []*clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, client := range clients {
		for _, err := client.TimeToLive(ctx, 1); err != nil; _, err = client.TimeToLive(ctx, 1) {
			if ctx.Err() != nil {
				return err
			}
		}
	}
	return nil
}

// TestConformance checks the store clauses on one server and on a cluster with etcd's
// default settings. It also checks clauses for a server that does not answer, or comes
// back from a snapshot under another cluster id. The harness has no Reset and no
// Checkpoint: a cluster with a lower revision is refused, see TestLowerRevisionIsRefused.
func TestConformance(t *testing.T) {
	t.Parallel()
	const ttl, slack = 6 * time.Second, 2500 * time.Millisecond
	alone := slices.DeleteFunc(drivertest.Cases(), func(c drivertest.Case) bool { return !c.Disrupts() })
	one := &rig{cluster: etcdtest.Start(t, 1, servers.QuickEtcd...), ttl: ttl, slack: slack}
	three := &rig{cluster: etcdtest.Start(t, 3), ttl: ttl, slack: slack}
	var both sync.WaitGroup
	for name, r := range map[string]*rig{"one node": one, "three nodes": three} {
		both.Go(func() {
			t.Run(name, func(t *testing.T) {
				drivertest.RunCases(t, drivertest.Cases(), slices.Repeat([]func(*testing.T) *drivertest.Harness{r.harness}, 16)...)
			})
		})
	}
	both.Wait()
	// Not beside the others: what is checked is how soon a call gives up, and a fortieth
	// of the TTL is all the time that a server has for it.
	silent := &rig{cluster: etcdtest.Start(t, 1), ttl: 20 * time.Second, slack: 5 * time.Second, exclusive: true}
	t.Run("silence", func(t *testing.T) { drivertest.RunCases(t, alone, silent.harness) })
}
