// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/internal/storetest"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
)

func TestLingeringLockIsGivenBack(t *testing.T) {
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	storetest.GivesBack(t, time.Minute, func() driver.Store {
		store, err := New(cluster.Connect(t), &Options{MaxTTL: time.Hour})
		must.OK(t, err)
		return store
	})
}
