// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/drivertest"
	"github.com/fencelock/fencelock/redisstore"
	"github.com/fencelock/fencelock/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

func TestConformanceSentinel(t *testing.T) {
	t.Parallel()
	client := redistest.StartSentinels(t).Client()
	drivertest.Run(t, func(t *testing.T) *drivertest.Harness {
		return setHarness(client, 1, func() error { return client.FlushAll(t.Context()).Err() })
	})
}

// setHarness returns a harness for one case on a set of servers that all cases
// share, one after the other.
func setHarness(client redis.UniversalClient, buckets int, forget func() error) *drivertest.Harness {
	opts := redisstore.Options{Namespace: fmt.Sprintf("set%d", spaces.Add(1)), Buckets: buckets}
	return &drivertest.Harness{
		Open:   func() (driver.Store, error) { return redisstore.New(client, &opts) },
		TTL:    500 * time.Millisecond,
		Slack:  180 * time.Millisecond, // many servers share few processors here
		Soon:   5 * time.Second,
		Forget: forget,
	}
}
