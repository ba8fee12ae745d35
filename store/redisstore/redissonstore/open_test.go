// SPDX-License-Identifier: Apache-2.0

package redissonstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/storetest"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/redissonstore"
)

// TestOpen: a URL is a client that the store owns, and its parameters are options.
func TestOpen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for query, shared := range map[string]bool{"": false, "?read_write=true&client_name=x": true, "?no_tokens=true": false} {
		store, err := fencelock.OpenStore(t.Context(), "redisson://"+server.Addr+"/0"+query)
		must.OK(t, err)
		if store.Caps().Shared != shared {
			t.Errorf("%s: shared is %v", query, store.Caps().Shared)
		}
		locks, err := fencelock.New(store, nil)
		must.OK(t, err)
		must.OK(t, locks.Do(t.Context(), "x", func(context.Context, *fencelock.Lease) error { return nil }))
		must.OK(t, locks.Close(t.Context()))
		must.OK(t, store.Close())
		if _, err := store.Inspect(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("%s: the client is open after Close: %v", query, err)
		}
	}
}

// TestPrefixOfAURLIsThatOfTheKeys: most NameMappers are a prefix, and a command line has no other way to give one.
func TestPrefixOfAURLIsThatOfTheKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, err := redissonstore.Open(t.Context(), "redisson://"+server.Addr+"?prefix=app:", nil)
	must.OK(t, err)
	defer store.Close()
	locks, err := fencelock.New(store, nil)
	must.OK(t, err)
	defer locks.Close(context.Background())
	must.OK(t, locks.Do(t.Context(), "x", func(context.Context, *fencelock.Lease) error {
		if n, err := server.Do("EXISTS", "app:x").Int(); n != 1 {
			t.Errorf("the key app:x is not there: %v", err)
		}
		return nil
	}))
	mapped := &redissonstore.Options{NameMapper: strings.ToUpper}
	if _, err := redissonstore.Open(t.Context(), "redisson://"+server.Addr+"?prefix=app:", mapped); err == nil || !strings.Contains(err.Error(), "NameMapper") {
		t.Errorf("a prefix beside a NameMapper: %v", err)
	}
}

// TestOpenRefusals: errors name what to change, and show no password.
func TestOpenRefusals(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	storetest.Refused(t, func(url string) error { _, err := redissonstore.Open(ctx, url, nil); return err }, map[string]string{
		"redisson://u:hunter2@127.0.0.1:1":     "open 127.0.0.1:1",
		"redis://u:hunter2@h":                  "must begin with redisson://",
		"redisson://u:hunter2@a,b":             "redisson-cluster://",
		"redisson://u:hunter2@h?grace=true":    "does nothing in this store",
		"redisson://u:hunter2@h?read_write=so": "read_write",
		"redisson-sentinel://u:hunter2@h":      "redisson-sentinel://host:26379/mymaster",
	})
}
