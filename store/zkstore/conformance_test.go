// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore"
)

// start starts an ensemble and ends it with the test.
func start(t testing.TB, n int) *servers.Ensemble {
	t.Helper()
	return servers.Test(t, func() (*servers.Ensemble, error) { return servers.ZooKeeper(n) })
}

// TestConformance checks the store clauses on one real server. Nearly all of its time is
// waiting, so many cases run at once, each below its own root. The server is never
// stopped: a case that needs a server which does not answer blocks its own connections.
//
// The harness has no Reset: an ensemble keeps its data, and a store without incarnations
// could not detect the loss.
func TestConformance(t *testing.T) { conform(t, start(t, 1), drivertest.Cases()) }

func conform(t *testing.T, e *servers.Ensemble, cases []drivertest.Case) {
	harness := func(t *testing.T) *drivertest.Harness { return harness(t, e) }
	drivertest.RunCases(t, cases, slices.Repeat([]func(*testing.T) *drivertest.Harness{harness}, 16)...)
}

// roots gives every case its own namespace.
var roots atomic.Int64

func harness(t *testing.T, e *servers.Ensemble) *drivertest.Harness {
	namespace := fmt.Sprintf("case%d", roots.Add(1))
	valve := &servers.Valve{}
	return &drivertest.Harness{
		Open: func() (driver.Store, error) {
			s, err := zkstore.New(e.Addrs(), &zkstore.Options{Namespace: namespace, TickTime: servers.TickTime, MaxTTL: 50 * time.Second, Dial: valve.Dial})
			if err == nil {
				t.Cleanup(func() { s.Close() })
			}
			return s, err
		},
		Sever: valve.Shut,
		TTL:   3 * time.Second, // several servers and all these clients share few processors here
		Slack: 1200 * time.Millisecond,
		Soon:  10 * time.Second,
	}
}
