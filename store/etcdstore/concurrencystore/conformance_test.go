// SPDX-License-Identifier: Apache-2.0

package concurrencystore_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/concurrencystore"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
)

// spaces gives every case its own keys.
var spaces atomic.Int64

func harness(cluster *etcdtest.Cluster, ttl, slack time.Duration, sever bool) func(t *testing.T) *drivertest.Harness {
	return func(t *testing.T) *drivertest.Harness {
		n := spaces.Add(1)
		opts := concurrencystore.Options{Prefix: fmt.Sprintf("/locks/%d/", n), Namespace: fmt.Sprintf("space/%d", n)}
		h := &drivertest.Harness{
			Open:  func() (driver.Store, error) { return concurrencystore.New(cluster.Connect(t), &opts) },
			TTL:   ttl,
			Slack: slack,
			Soon:  15 * time.Second,
		}
		if sever {
			h.Sever = cluster.Pause
		}
		return h
	}
}

// TestConformance checks the store clauses on one server. The harness loses no data: a cluster with a lower revision is
// refused, as in etcdstore.
func TestConformance(t *testing.T) {
	t.Parallel()
	const ttl, slack = 6 * time.Second, 2500 * time.Millisecond
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	cases := drivertest.Cases()
	calm := slices.DeleteFunc(slices.Clone(cases), drivertest.Case.Disrupts)
	report := drivertest.RunCases(t, calm, slices.Repeat([]func(*testing.T) *drivertest.Harness{harness(cluster, ttl, slack, false)}, 16)...)
	if passed, _, _ := report.Counts(); len(report.Results) == len(calm) && passed < 60 {
		t.Errorf("only %d cases passed: something is skipped that should not be", passed)
	}
	silent := etcdtest.Start(t, 1)
	t.Run("silence", func(t *testing.T) {
		alone := slices.DeleteFunc(cases, func(c drivertest.Case) bool { return !c.Disrupts() })
		drivertest.RunCases(t, alone, harness(silent, 20*time.Second, 5*time.Second, true))
	})
}
