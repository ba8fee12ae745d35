// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/store/both"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/redissonstore"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
	"github.com/redis/go-redis/v9"
)

// TestConformanceOfAMigration checks the store clauses on a store that holds a lock in the format of
// another library and in ours.
func TestConformanceOfAMigration(t *testing.T) {
	for name, open := range map[string]func(client redis.UniversalClient) (driver.Store, error){
		"setnxstore":    func(client redis.UniversalClient) (driver.Store, error) { return setnxstore.New(client, nil) },
		"redissonstore": func(client redis.UniversalClient) (driver.Store, error) { return redissonstore.New(client, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var harnesses []func(*testing.T) *drivertest.Harness
			for range 4 {
				server := redistest.Start(t)
				harnesses = append(harnesses, func(t *testing.T) *drivertest.Harness {
					client := redis.NewClient(&redis.Options{Addr: server.Addr})
					t.Cleanup(func() { _ = client.Close() })
					return &drivertest.Harness{
						Open: func() (driver.Store, error) {
							old, err := open(client)
							if err != nil {
								return nil, err
							}
							next, err := redisstore.New(client, nil)
							if err != nil {
								return nil, err
							}
							return both.New(both.Stores{Old: old, New: next}, nil)
						},
						Sever: server.Pause,
						TTL:   2 * time.Second,
						Slack: 500 * time.Millisecond,
						Soon:  20 * time.Second,
					}
				})
			}
			cases := slices.DeleteFunc(drivertest.Cases(), func(c drivertest.Case) bool {
				// A SET NX lock cannot be broken: it stays until the next renewal of its holder.
				return name == "setnxstore" && (c.Clause.ID == "I4" || c.Clause.ID == "T4")
			})
			report := drivertest.RunCases(t, cases, harnesses...)
			if passed, _, _ := report.Counts(); len(report.Results) == len(cases) && passed < 45 {
				t.Errorf("only %d cases passed: something is skipped that should not be", passed)
			}
		})
	}
}
