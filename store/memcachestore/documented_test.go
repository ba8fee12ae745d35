// SPDX-License-Identifier: Apache-2.0

package memcachestore_test

import (
	"context"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/internal/storetest"
	"github.com/fencelock/fencelock/store/memcachestore"
)

// The code of docs/memcached.md.

func open(ctx context.Context, url string) (*fencelock.Client, error) {
	store, err := memcachestore.Open(ctx, url, nil) // memcached://host:11211
	if err != nil {
		return nil, err
	}
	return fencelock.New(store, nil) // Require: fencelock.Correctness would be refused
}

func TestDocumented(t *testing.T) {
	locks, err := open(t.Context(), "memcached://"+startMemcached(t).Addr)
	storetest.Runs(t, locks, err)
}

// TestExamples runs the example of the package on a server.
func TestExamples(t *testing.T) {
	servers.Example(t, Example, "MEMCACHED_URL", "memcached://"+startMemcached(t).Addr, "holding orders/42\n")
}
