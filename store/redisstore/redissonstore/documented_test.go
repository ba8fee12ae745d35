// SPDX-License-Identifier: Apache-2.0

package redissonstore_test

import (
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/internal/storetest"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/redissonstore"
	"github.com/redis/go-redis/v9"
)

// The code of docs/sharing.md.

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
	storetest.Runs(t, locks, err)
}

// TestExamples runs the example of the package on a server.
func TestExamples(t *testing.T) {
	servers.Example(t, Example, "REDIS_URL", "redis://"+redistest.Start(t).Addr, "holding orders/42\n")
}
