// SPDX-License-Identifier: Apache-2.0

package curatorstore_test

import (
	"context"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore/curatorstore"
)

// The code of docs/sharing.md.

func withJava(ctx context.Context) (*fencelock.Client, error) {
	store, err := curatorstore.Open(ctx, "curator://zk1:2181,zk2:2181,zk3:2181/locks", nil)
	if err != nil {
		return nil, err
	}
	return fencelock.New(store, nil)
}

// TestDocumented: the servers of the page do not exist.
func TestDocumented(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if locks, err := withJava(ctx); err == nil {
		t.Errorf("opened %v", locks)
	}
}

// TestExamples runs the example of the package on a server.
func TestExamples(t *testing.T) {
	servers.Example(t, Example, "ZOOKEEPER_URL", "curator://"+start(t, 1).Servers[0].Addr+"/locks?tick_time=200ms&max_ttl=30s", "holding orders/42\n")
}
