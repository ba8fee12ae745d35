// SPDX-License-Identifier: Apache-2.0

package memcachestore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/drivertest"
	"github.com/fencelock/fencelock/memcachestore"
	"github.com/fencelock/fencelock/memcachestore/internal/memcachedtest"
)

// TestConformance checks the store clauses on real servers. Nearly all of it is
// waiting, so the cases are shared out to several servers: some stop theirs.
//
// The harness loses no memory: the store keeps none, and a session that is not
// there any more has ended, whatever the reason.
func TestConformance(t *testing.T) {
	const servers = 16
	cases := drivertest.Cases()
	results := make([]chan drivertest.Result, len(cases))
	for i := range results {
		results[i] = make(chan drivertest.Result, 1)
	}
	var next atomic.Int64
	var working sync.WaitGroup
	defer working.Wait()
	for range servers {
		server := memcachedtest.Start(t)
		working.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(cases)); i = next.Add(1) - 1 {
				results[i] <- check(t, server, cases[i], fmt.Sprint("space", i))
			}
		})
	}
	var passed, skipped int
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			result := <-results[i]
			for _, f := range result.Failures {
				t.Error(f)
			}
			if result.Skipped != "" {
				skipped++
				t.Skip(result.Skipped)
			}
			passed++
		})
	}
	t.Logf("%d cases passed, %d skipped", passed, skipped)
	if passed < 45 {
		t.Errorf("only %d cases ran, want at least 45: something is skipped that should not be", passed)
	}
}

func check(t *testing.T, server *memcachedtest.Server, c drivertest.Case, space string) drivertest.Result {
	var stores []*memcachestore.Store
	defer func() {
		for _, s := range stores {
			s.Close()
		}
	}()
	return c.Check(t.Context(), &drivertest.Harness{
		Open: func() (driver.Store, error) {
			s, err := memcachestore.New(server.Addr, &memcachestore.Options{Namespace: space})
			if err == nil {
				stores = append(stores, s)
			}
			return s, err
		},
		Sever: server.Stop,
		TTL:   2 * time.Second,
		// memcached ends an item with a tick of a second, and the store asks for
		// one second more than the TTL.
		Slack: 1500 * time.Millisecond,
	})
}
