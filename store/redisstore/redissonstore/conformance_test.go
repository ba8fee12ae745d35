// SPDX-License-Identifier: Apache-2.0

package redissonstore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/redissonstore"
	"github.com/redis/go-redis/v9"
)

// TestConformance checks the store clauses. Nearly all of it is waiting, so the cases are
// shared out to several servers: some stop theirs.
//
// The harness loses no data but for the tokens: a session that is not there any more has
// ended, whatever the reason.
func TestConformance(t *testing.T) {
	for name, opts := range map[string]*redissonstore.Options{"tokens": nil, "no tokens": {NoTokens: true}, "read-write": {ReadWrite: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var harnesses []func(*testing.T) *drivertest.Harness
			for range 6 {
				server := redistest.Start(t)
				harnesses = append(harnesses, func(t *testing.T) *drivertest.Harness {
					h := harness(t, opts, redis.NewClient(&redis.Options{Addr: server.Addr}))
					h.Sever = server.Pause
					if tokensOverALoss(t.Name()) {
						h.Reset = func() error { return server.Do("FLUSHALL").Err() }
					}
					return h
				})
			}
			cases := drivertest.Cases()
			report := drivertest.RunCases(t, cases, harnesses...)
			if passed, _, _ := report.Counts(); len(report.Results) == len(cases) && passed < 45 {
				t.Errorf("only %d cases passed: something is skipped that should not be", passed)
			}
		})
	}
}

// tokensOverALoss reports whether a test is the case that needs a data loss for tokens.
func tokensOverALoss(test string) bool { return strings.Contains(test, "T5/") }

// TestConformanceOnACluster runs the cases whose names Redisson can unlock on a cluster.
func TestConformanceOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Redis.StartCluster(t, redistest.Never)
	cases := slices.DeleteFunc(drivertest.Cases(), func(c drivertest.Case) bool {
		return c.Disrupts() || strings.HasPrefix(c.Name, "O7/")
	})
	drivertest.RunCases(t, cases, func(t *testing.T) *drivertest.Harness {
		return harness(t, nil, redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()}))
	})
}

func harness(t *testing.T, opts *redissonstore.Options, client redis.UniversalClient) *drivertest.Harness {
	t.Cleanup(func() { _ = client.Close() })
	return &drivertest.Harness{
		Open:  func() (driver.Store, error) { return redissonstore.New(client, opts) },
		TTL:   2 * time.Second,
		Slack: 500 * time.Millisecond,
		Soon:  20 * time.Second,
	}
}
