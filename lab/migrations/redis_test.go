// SPDX-License-Identifier: Apache-2.0

//go:build unix

package migrations

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func TestRueidislock(t *testing.T) {
	t.Parallel()
	addr := servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start() }).Addr
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	open := func() rueidislock.Locker {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{addr}}, KeyMajority: 1, TryNextAfter: 5 * time.Second})
		must.OK(t, err)
		t.Cleanup(l.Close)
		return l
	}
	ours, theirs := open(), open()
	check(t, &peer{
		both: func(ctx context.Context, locks *fencelock.Client, name string, do work) error {
			return withRueidislock(ctx, locks, ours, name, do)
		},
		try: func(t *testing.T, name string) func() {
			_, release, err := theirs.TryWithContext(t.Context(), name)
			if err != nil {
				return nil
			}
			return release
		},
		lose: func(t *testing.T, name string) {
			if n, err := client.Del(t.Context(), "rueidislock:0:"+name).Result(); n != 1 || err != nil {
				t.Fatalf("deleted %d keys, %v", n, err)
			}
		},
	})
}
