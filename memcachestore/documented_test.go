// SPDX-License-Identifier: Apache-2.0

package memcachestore_test

import (
	"context"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/memcachestore"
	"github.com/fencelock/fencelock/memcachestore/internal/memcachedtest"
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
	locks, err := open(t.Context(), "memcached://"+memcachedtest.Start(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close(context.Background())
	ran := false
	err = locks.Do(t.Context(), "x", func(context.Context, *fencelock.Lease) error { ran = true; return nil })
	if err != nil || !ran {
		t.Errorf("ran: %v, %v", ran, err)
	}
}
