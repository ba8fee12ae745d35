// SPDX-License-Identifier: Apache-2.0

package redissonstore_test

import (
	"context"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/redissonstore"
	"github.com/redis/go-redis/v9"
)

// The code of docs/redisson.md.

func withJava(client redis.UniversalClient) (*fencelock.Client, error) {
	store, err := redissonstore.New(client, nil)
	if err != nil {
		return nil, err
	}
	return fencelock.New(store, nil) // Require: fencelock.Correctness would be rejected
}

func TestDocumented(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	defer client.Close()
	locks, err := withJava(client)
	must.OK(t, err)
	defer locks.Close(context.Background())
	must.OK(t, locks.Do(t.Context(), "x", func(context.Context, *fencelock.Lease) error { return nil }))
}

// TestExamples runs the example of the package on a server.
func TestExamples(t *testing.T) {
	servers.Example(t, Example, "REDIS_URL", "redis://"+redistest.Start(t).Addr, "holding orders/42\n")
}
