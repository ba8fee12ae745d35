// SPDX-License-Identifier: Apache-2.0

package curatorstore_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore/curatorstore"
)

// start starts an ensemble and ends it with the test.
func start(t testing.TB, n int) *servers.Ensemble {
	t.Helper()
	return servers.Test(t, func() (*servers.Ensemble, error) { return servers.ZooKeeper(n) })
}

// TestConformance checks the store clauses on a real server, for each recipe. Names are paths, so
// the cases with names that are not run with a mapper, as a service with such names would.
func TestConformance(t *testing.T) {
	e := start(t, 1)
	for name, of := range map[string]struct {
		opts curatorstore.Options
		runs func(drivertest.Case) bool
	}{
		"mutex":      {curatorstore.Options{}, isPath},
		"read-write": {curatorstore.Options{Recipe: curatorstore.ReadWrite}, isPath},
		"latch":      {curatorstore.Options{Recipe: curatorstore.Latch}, func(c drivertest.Case) bool { return isPath(c) && strings.Contains("OTQ", c.Clause.ID[:1]) }},
		"mapped":     {curatorstore.Options{NameMapper: url.PathEscape}, func(c drivertest.Case) bool { return !isPath(c) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cases := slices.DeleteFunc(drivertest.Cases(), func(c drivertest.Case) bool { return !of.runs(c) })
			harness := func(t *testing.T) *drivertest.Harness { return harness(t, e, of.opts) }
			drivertest.RunCases(t, cases, slices.Repeat([]func(*testing.T) *drivertest.Harness{harness}, 8)...)
		})
	}
}

// isPath reports whether the names of a case are paths.
func isPath(c drivertest.Case) bool { return c.Clause.ID != "O7" && c.Name != "I3/prefix" }

// roots gives every case its own root.
var roots atomic.Int64

func harness(t *testing.T, e *servers.Ensemble, opts curatorstore.Options) *drivertest.Harness {
	n := roots.Add(1)
	valve := &servers.Valve{}
	opts.Root, opts.Sessions = fmt.Sprintf("/case%d", n), fmt.Sprintf("/sessions%d", n)
	opts.TickTime, opts.MaxTTL, opts.Dial = servers.TickTime, 50*time.Second, valve.Dial
	return &drivertest.Harness{
		Open: func() (driver.Store, error) {
			s, err := curatorstore.New(e.Addrs(), &opts)
			if err == nil {
				t.Cleanup(func() { s.Close() })
			}
			return s, err
		},
		Sever: valve.Shut,
		TTL:   3 * time.Second, // all these clients share few processors here
		Slack: 1200 * time.Millisecond,
		Soon:  10 * time.Second,
	}
}
