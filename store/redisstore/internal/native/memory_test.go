// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// TestReleaseWhileMemoryIsFull: while the server rejects claims because its memory is full,
// locks are released, even in one batch with claims.
func TestReleaseWhileMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			to := login{Addr: redistest.Start(t).Addr}
			c := redistest.Locks(t, lib.open(t, to, &native.Options{Namespace: lists + "Memory"}))
			server := redis.NewClient(&redis.Options{Addr: to.Addr})
			defer server.Close()
			var held [128]*fencelock.Lease
			for i := range held {
				l, err := c.Mutex(fmt.Sprint("held ", i)).Lock(t.Context())
				must.OK(t, err)
				held[i] = l
			}
			must.OK(t, server.ConfigSet(t.Context(), "maxmemory", "1").Err())
			claims, end := context.WithCancel(t.Context())
			var claiming, releasing sync.WaitGroup
			for i, l := range held {
				claiming.Go(func() {
					for j := 0; claims.Err() == nil; j++ {
						_, _ = c.Mutex(fmt.Sprint("new ", i, j)).Lock(claims) // most fail; some are granted by a script
					}
				})
				releasing.Go(func() {
					if err := l.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			releasing.Wait()
			end()
			claiming.Wait()
			must.OK(t, server.ConfigSet(t.Context(), "maxmemory", "0").Err())
		})
	}
}
