// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/storetest"
	"github.com/fencelock/fencelock/store/zkstore"
)

func TestLingeringLockIsGivenBack(t *testing.T) {
	server := start(t, 1).Servers[0].Addr
	storetest.GivesBack(t, 30*time.Second, func() driver.Store { // the longest TTL
		store, err := zkstore.Open(t.Context(), "zk://"+server+"/fencelock?tick_time=200ms&max_ttl=30s", nil)
		must.OK(t, err)
		return store
	})
}
