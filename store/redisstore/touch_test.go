// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// TestGraceBeginsEverywhere: the grace of all buckets begins with the first session of a new
// namespace, and after a data loss with the first that finds it. It is paid once, and
// not by the first lock in each of them.
func TestGraceBeginsEverywhere(t *testing.T) {
	t.Parallel()
	const buckets = 8
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	store, err := redisstore.New(client, &redisstore.Options{Namespace: "orders", Grace: true, Buckets: buckets})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	req := driver.OpenRequest{Shard: store.Shard("x"), ID: driver.NewSessionID(), TTL: 30 * time.Second}
	open := func() driver.Session {
		t.Helper()
		s, _, err := store.Open(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	begun := func() bool {
		keys, err := client.Keys(ctx, "orders:*").Result()
		return err == nil && len(keys) == buckets
	}
	s := open()
	waitFor(t, "a new namespace has begun in all buckets", begun)
	if err := client.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.KeepAlive(ctx); !errors.Is(err, driver.ErrReset) {
		t.Fatalf("after a data loss: %v", err)
	}
	open()
	waitFor(t, "the grace has begun in all buckets", begun)
}
