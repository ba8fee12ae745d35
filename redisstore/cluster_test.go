// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"testing"

	"github.com/fencelock/fencelock/drivertest"
	"github.com/fencelock/fencelock/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	client := redistest.StartCluster(t).Client()
	drivertest.Run(t, func(t *testing.T) *drivertest.Harness {
		return setHarness(client, 8, func() error {
			return client.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error {
				return c.FlushAll(ctx).Err()
			})
		})
	})
}
