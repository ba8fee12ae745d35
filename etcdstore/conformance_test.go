// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
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
			if err := r.cluster.Restore(snapshot); err != nil {
				return err
			}
			return answer(t.Context(), clients)
		}
	}
	result := c.Check(t.Context(), h)
	for _, client := range clients {
		_ = client.Close()
	}
	return result
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

// run is some cases on a rig.
type run struct {
	name    string
	cases   []drivertest.Case
	results []chan drivertest.Result
}

// start begins to check the cases, some at a time: nearly all of their time is
// waiting. The last in the list take longest, so it begins with them.
func start(t *testing.T, name string, r *rig, cases []drivertest.Case, atATime int) *run {
	all := &run{name, cases, make([]chan drivertest.Result, len(cases))}
	for i := range all.results {
		all.results[i] = make(chan drivertest.Result, 1)
	}
	var left atomic.Int64
	left.Store(int64(len(cases)))
	var working sync.WaitGroup
	t.Cleanup(working.Wait) // before the cluster is killed
	for range atATime {
		working.Go(func() {
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				all.results[i] <- r.check(t, cases[i])
			}
		})
	}
	return all
}

// report makes a subtest of every case.
func (r *run) report(t *testing.T) {
	skipped := 0
	for i, c := range r.cases {
		t.Run(c.Name, func(t *testing.T) {
			result := <-r.results[i]
			for _, f := range result.Failures {
				t.Error(f)
			}
			if result.Skipped != "" {
				skipped++
				t.Skip(result.Skipped)
			}
		})
	}
	t.Logf("%d cases, %d skipped", len(r.cases), skipped)
}

// TestConformance checks the store clauses on one server, on a cluster with the
// settings that etcd has by default, and what can only be checked by doing things to
// the server: that it does not answer, or comes back from a snapshot under another
// cluster id. There is no Forget and no Checkpoint: a cluster with a lower revision
// is refused, see TestLowerRevisionIsRefused.
func TestConformance(t *testing.T) {
	t.Parallel()
	const ttl, slack = 6 * time.Second, 2500 * time.Millisecond
	var alone []drivertest.Case
	for _, c := range drivertest.Cases() {
		switch c.Clause.ID {
		case "T5", "X4", "R1", "R5", "R6":
			alone = append(alone, c)
		}
	}
	one := &rig{cluster: etcdtest.Start(t, 1, etcdtest.Quick...), ttl: ttl, slack: slack}
	three := &rig{cluster: etcdtest.Start(t, 3), ttl: ttl, slack: slack}
	for _, r := range []*run{
		start(t, "one node", one, drivertest.Cases(), 16),
		start(t, "three nodes", three, drivertest.Cases(), 16),
	} {
		t.Run(r.name, r.report)
	}
	// Not beside the others: what is checked is how soon a call gives up, and a fortieth
	// of the TTL is all the time that a server has for it.
	silent := &rig{cluster: etcdtest.Start(t, 1), ttl: 20 * time.Second, slack: 5 * time.Second, exclusive: true}
	t.Run("silence", start(t, "silence", silent, alone, 1).report)
}
