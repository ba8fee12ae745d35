// SPDX-License-Identifier: Apache-2.0

package memcachestore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/memcachestore"
)

// TestConformance checks the store clauses on real servers. Nearly all of it is
// waiting, so the cases are shared out to several servers: some stop theirs.
//
// The harness loses no memory: the store keeps none, and a session that is not
// there any more has ended, whatever the reason.
func TestConformance(t *testing.T) {
	var harnesses []func(*testing.T) *drivertest.Harness
	for range 16 {
		server := startMemcached(t)
		harnesses = append(harnesses, func(t *testing.T) *drivertest.Harness { return harness(t, server) })
	}
	cases := drivertest.Cases()
	report := drivertest.RunCases(t, cases, harnesses...)
	if passed, _, _ := report.Counts(); len(report.Results) == len(cases) && passed < 45 {
		t.Errorf("only %d cases passed, want at least 45: something is skipped that should not be", passed)
	}
}

// spaces gives every case its own namespace.
var spaces atomic.Int64

func harness(t *testing.T, server *servers.MemcachedServer) *drivertest.Harness {
	space := fmt.Sprint("space", spaces.Add(1))
	return &drivertest.Harness{
		Open: func() (driver.Store, error) {
			s, err := memcachestore.New(server.Addr, &memcachestore.Options{Namespace: space})
			if err == nil {
				t.Cleanup(func() { s.Close() })
			}
			return s, err
		},
		Sever: server.Pause,
		TTL:   2 * time.Second,
		// memcached ends an item with a tick of a second, and the store asks for
		// one second more than the TTL.
		Slack: 1500 * time.Millisecond,
	}
}
