// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/redissonstore"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
	"github.com/redis/go-redis/v9"
)

// TestReclaimedLockIsNotLeftOver: a session is opened again, with its last value or without, and its next renewal must not
// take what was reclaimed for the rest of an earlier life.
func TestReclaimedLockIsNotLeftOver(t *testing.T) {
	t.Parallel()
	for format, open := range withRedlock(t) {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/known=%t", format, known), func(t *testing.T) {
				t.Parallel()
				client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
				t.Cleanup(func() { _ = client.Close() })
				store, err := open(client)
				must.OK(t, err)
				reclaimed(t, store, known)
			})
		}
	}
}

// reclaimed opens a session again that holds a lock.
func reclaimed(t *testing.T, store driver.Store, known bool) {
	t.Helper()
	name := fmt.Sprint("held-", known) // some of the servers are those of other tests, too
	req := driver.OpenRequest{Shard: store.Shard(name), ID: driver.NewSessionID(), TTL: 30 * time.Second}
	drv, _, err := store.Open(t.Context(), req)
	must.OK(t, err)
	attempt := func(seq uint64, name string) driver.Held {
		c := driver.Claim{Seq: seq, Name: name, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
		out, err := drv.Attempt(t.Context(), &c)
		must.OK(t, err)
		return driver.Held{Claim: c, Token: out.Token}
	}
	held := attempt(5, name)
	if known {
		req.Before = drv
	}
	drv, _, err = store.Open(t.Context(), req)
	must.OK(t, err)
	if kept, err := drv.Reclaim(t.Context(), []driver.Held{held}, true); err != nil || !kept[0] {
		t.Fatalf("reclaimed %v, %v", kept, err)
	}
	attempt(3, name+" before") // numbers before and after that of the holder
	attempt(6, name+" after")
	for range 2 {
		if r, err := drv.KeepAlive(t.Context()); err != nil || len(r.Broken) > 0 {
			t.Fatalf("broken are %v, %v; want none", r.Broken, err)
		}
	}
	if st, err := store.Inspect(t.Context(), name); err != nil || len(st.Holders) != 1 {
		t.Errorf("the lock has holders %v, %v; want the one that was reclaimed", st.Holders, err)
	}
	if found, err := drv.Withdraw(t.Context(), driver.Withdrawal{Seq: 5, Name: name}); err != nil || found != driver.WasGranted {
		t.Errorf("the withdrawal found it %v, %v", found, err)
	}
}

// withRedlock returns otherFormats, and setnxstore over three servers.
func withRedlock(t *testing.T) map[string]func(redis.UniversalClient) (driver.Store, error) {
	t.Helper()
	var others []redis.UniversalClient
	for range 2 {
		other := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
		t.Cleanup(func() { _ = other.Close() })
		others = append(others, other)
	}
	formats := maps.Clone(otherFormats)
	formats["setnxstore over three servers"] = func(client redis.UniversalClient) (driver.Store, error) {
		return setnxstore.NewRedlock(append(others, client), nil)
	}
	return formats
}

// otherFormats are stores in the formats of other libraries.
var otherFormats = map[string]func(redis.UniversalClient) (driver.Store, error){
	"setnxstore":    func(client redis.UniversalClient) (driver.Store, error) { return setnxstore.New(client, nil) },
	"redissonstore": func(client redis.UniversalClient) (driver.Store, error) { return redissonstore.New(client, nil) },
}
