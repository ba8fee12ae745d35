// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/drivertest"
	"github.com/fencelock/fencelock/etcdstore"
	"github.com/fencelock/fencelock/etcdstore/internal/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// rig is a cluster for some cases at a time.
type rig struct {
	cluster    *etcdtest.Cluster
	ttl, slack time.Duration
	// exclusive: the cases do things to the servers, so there is one at a time.
	exclusive bool
}

// spaces gives every case a namespace of its own.
var spaces atomic.Int64

// check runs one case with two clients that share nothing but the cluster.
func (r *rig) check(t *testing.T, c drivertest.Case) drivertest.Result {
	opts := etcdstore.Options{Namespace: fmt.Sprintf("space/%d", spaces.Add(1))}
	var clients []*clientv3.Client
	h := &drivertest.Harness{
		Open: func() (driver.Store, error) {
			client, err := r.cluster.Client()
			if err != nil {
				return nil, err
			}
			clients = append(clients, client)
			return etcdstore.New(client, &opts)
		},
		TTL: r.ttl, Slack: r.slack, Soon: 15 * time.Second,
	}
	if r.exclusive {
		h.Sever = r.cluster.Stop
		h.Restart = func() error {
			snapshot, err := r.cluster.Snapshot()
			if err != nil {
				return err
			}
			return r.cluster.Restore(snapshot)
		}
	}
	result := c.Check(t.Context(), h)
	for _, client := range clients {
		_ = client.Close()
	}
	return result
}

// conform runs cases on a rig, some at a time: nearly all of their time is
// waiting. The last in the list take longest, so it begins with them.
func conform(t *testing.T, cases []drivertest.Case, r *rig, atATime int) {
	results := make([]chan drivertest.Result, len(cases))
	for i := range results {
		results[i] = make(chan drivertest.Result, 1)
	}
	var left atomic.Int64
	left.Store(int64(len(cases)))
	var working sync.WaitGroup
	defer working.Wait()
	for range atATime {
		working.Go(func() {
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				results[i] <- r.check(t, cases[i])
			}
		})
	}
	skipped := 0
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			result := <-results[i]
			for _, f := range result.Failures {
				t.Error(f)
			}
			if result.Skipped != "" {
				skipped++
				t.Skip(result.Skipped)
			}
		})
	}
	t.Logf("%d cases, %d skipped", len(cases), skipped)
}

// TestConformanceOneNode checks the store clauses on one server.
func TestConformanceOneNode(t *testing.T) {
	t.Parallel()
	r := &rig{cluster: etcdtest.Start(t, 1, etcdtest.Quick...), ttl: 4 * time.Second, slack: 1900 * time.Millisecond}
	conform(t, drivertest.Cases(), r, 24)
}

// TestConformanceThreeNodes checks them on a cluster with the settings that etcd
// has by default, whose shortest lease is two seconds.
func TestConformanceThreeNodes(t *testing.T) {
	t.Parallel()
	r := &rig{cluster: etcdtest.Start(t, 3), ttl: 4 * time.Second, slack: 1900 * time.Millisecond}
	conform(t, drivertest.Cases(), r, 32)
}

// TestConformanceSilence checks the clauses about an engine that does not answer,
// or comes back from a snapshot under another cluster id. There is no Forget and no
// Checkpoint: a cluster with a lower revision is refused, see
// TestLowerRevisionIsRefused.
func TestConformanceSilence(t *testing.T) {
	t.Parallel()
	r := &rig{cluster: etcdtest.Start(t, 1, etcdtest.Quick...), ttl: 4 * time.Second, slack: 900 * time.Millisecond, exclusive: true}
	var cases []drivertest.Case
	for _, c := range drivertest.Cases() {
		switch c.Clause.ID {
		case "T5", "X4", "R1", "R5", "R6":
			cases = append(cases, c)
		}
	}
	conform(t, cases, r, 1)
}
