// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"context"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/internal/storetest"
	"github.com/fencelock/fencelock/store/zkstore"
)

// The code of docs/zookeeper.md.

func open(ctx context.Context, url string) (*fencelock.Client, error) {
	store, err := zkstore.Open(ctx, url, nil) // zk://zk1:2181,zk2:2181,zk3:2181/fencelock
	if err != nil {
		return nil, err
	}
	return fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
}

func TestDocumented(t *testing.T) {
	locks, err := open(t.Context(), "zk://"+start(t, 1).Servers[0].Addr+"/fencelock?tick_time=200ms&max_ttl=30s")
	storetest.Runs(t, locks, err)
}

// TestExamples runs the example of the package on a server.
func TestExamples(t *testing.T) {
	servers.Example(t, Example, "ZOOKEEPER_URL", "zk://"+start(t, 1).Servers[0].Addr+"?tick_time=200ms&max_ttl=30s", "holding orders/42\n")
}
