// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"maps"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/both"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/redissonstore"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
	"github.com/redis/go-redis/v9"
)

// TestLockOfAnotherLibraryIsKeptAfterALossOfTheNewStore: the session of the old store is opened again, and its next renewal must
// not take what was reclaimed for the rest of an earlier life.
func TestLockOfAnotherLibraryIsKeptAfterALossOfTheNewStore(t *testing.T) {
	t.Parallel()
	for format, open := range withRedlock(t) {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
			t.Cleanup(func() { _ = client.Close() })
			old, err := open(client)
			must.OK(t, err)
			next := memstore.New(&memstore.Options{Grace: true})
			store, err := both.New(both.Stores{Old: old, New: next}, nil)
			must.OK(t, err)
			req := driver.OpenRequest{Shard: store.Shard("held"), ID: driver.NewSessionID(), TTL: 30 * time.Second}
			resume := func() driver.Session {
				drv, _, err := store.Open(t.Context(), req)
				must.OK(t, err)
				req.Before = drv
				return drv
			}
			claim := func(seq uint64, name string) *driver.Claim {
				return &driver.Claim{Seq: seq, Name: name, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
			}
			attempt := func(drv driver.Session, c *driver.Claim) driver.Outcome {
				out, err := drv.Attempt(t.Context(), c)
				must.OK(t, err)
				return out
			}
			drv, held := resume(), claim(5, "held")
			out := attempt(drv, held)
			next.Reset()
			drv = resume()
			if kept, err := drv.Reclaim(t.Context(), []driver.Held{{Claim: *held, Token: out.Token}}, true); err != nil || !kept[0] {
				t.Fatalf("reclaimed %v, %v", kept, err)
			}
			attempt(drv, claim(3, "waited for")) // numbers before and after that of the holder
			attempt(drv, claim(6, "another"))
			for range 2 {
				if r, err := drv.KeepAlive(t.Context()); err != nil || len(r.Broken) > 0 {
					t.Fatalf("broken are %v, %v; want none", r.Broken, err)
				}
			}
			if st, err := old.Inspect(t.Context(), "held"); err != nil || len(st.Holders) != 1 {
				t.Errorf("the old lock has holders %v, %v; want the one that was reclaimed", st.Holders, err)
			}
			if found, err := drv.Withdraw(t.Context(), driver.Withdrawal{Seq: 5, Name: "held"}); err != nil || found != driver.WasGranted {
				t.Errorf("the withdrawal found it %v, %v", found, err)
			}
		})
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
