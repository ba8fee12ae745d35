// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestPoolSizeBoundsAllConnections: a store opened by URL has the connections of pool_size and one to listen on,
// however many calls are in progress. A second pool for pipelines would add ten.
func TestPoolSizeBoundsAllConnections(t *testing.T) {
	t.Parallel()
	const size, listening = 3, 1
	server := redistest.Start(t)
	store, err := redisstore.Open(t.Context(), fmt.Sprintf("redis://%s?pool_size=%d&client_name=bounded", server.Addr, size), nil)
	must.OK(t, err)
	t.Cleanup(func() { _ = store.Close() })
	c := redistest.Locks(t, store)
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			for range 20 {
				l, err := c.Mutex(fmt.Sprint("lock-", i)).Lock(t.Context())
				if err == nil {
					err = l.Unlock(t.Context())
				}
				if err != nil {
					t.Errorf("lock %d: %v", i, err)
					return
				}
			}
		})
	}
	calls.Wait()
	if n := connectionsNamed(t, server.Addr, "bounded"); n == 0 || n > size+listening {
		t.Errorf("%d connections; pool_size is %d, and %d listens", n, size, listening)
	}
}

// connectionsNamed counts the connections of a server that have a name.
func connectionsNamed(t *testing.T, addr, name string) (n int) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	list, err := client.ClientList(t.Context()).Result()
	must.OK(t, err)
	return strings.Count(list, " name="+name+" ")
}
