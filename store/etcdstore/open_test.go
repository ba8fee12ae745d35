// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
)

// TestOpensAtOnceAreNotRefused: the answer to one Open may come after the answer to a later call, which has a higher
// revision. That is not a cluster that was restored.
func TestOpensAtOnceAreNotRefused(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	store, err := etcdstore.New(etcdtest.Start(t, 1, servers.QuickEtcd...).Connect(t), nil)
	must.OK(t, err)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 10 {
				_, _, err := store.Open(ctx, driver.OpenRequest{Shard: store.Shard("x"), ID: driver.NewSessionID(), TTL: 30 * time.Second})
				if err != nil {
					t.Errorf("open: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
}
