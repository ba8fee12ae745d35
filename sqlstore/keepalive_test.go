// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// counting counts the keep-alives of a store.
type counting struct {
	driver.Store
	kept chan struct{}
	n    atomic.Int64
}

type countingSession struct {
	driver.Session
	c *counting
}

func (c *counting) Open(ctx context.Context, r driver.OpenRequest) (driver.Session, driver.Life, error) {
	s, l, err := c.Store.Open(ctx, r)
	return countingSession{s, c}, l, err
}

func (s countingSession) KeepAlive(ctx context.Context) (driver.Life, error) {
	life, err := s.Session.KeepAlive(ctx)
	s.c.n.Add(1)
	s.c.kept <- struct{}{}
	return life, err
}

// TestKeepAliveIsOneStatement: a process with 1,000 leases has the server do one
// statement for each keep-alive, and nothing else.
func TestKeepAliveIsOneStatement(t *testing.T) {
	t.Parallel()
	const leases, keepAlives = 1000, 4
	server := need(t, onPostgres.start)
	admin := onPostgres.connect(t, server.Port)
	opts := onPostgres.space(t, admin)
	if _, err := admin.Exec("CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err != nil {
		t.Skipf("pg_stat_statements: %v; on Debian: apt-get install postgresql-15", err)
	}
	store := &counting{Store: onPostgres.store(t, onPostgres.connect(t, server.Port), &opts), kept: make(chan struct{}, 1000)}
	c := client(t, store, 6*time.Second)
	for i := range leases {
		lock(t, c, fmt.Sprint("lease/", i))
	}
	// statements counts those on the tables of this test, by the server.
	statements := func() (n int64) {
		must(t, admin.QueryRow("SELECT COALESCE(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query LIKE '%' || $1 || '%' AND query NOT LIKE '%pg_stat%'", opts.Prefix).Scan(&n))
		return n
	}
	await := func() {
		select {
		case <-store.kept:
		case <-time.After(time.Minute):
			t.Fatal("no keep-alive in a minute")
		}
	}
	for len(store.kept) > 0 {
		<-store.kept
	}
	await()
	before, calls := statements(), store.n.Load()
	for range keepAlives {
		await()
	}
	after, now := statements(), store.n.Load()
	if now-calls < keepAlives || after-before != now-calls {
		t.Errorf("%d leases: %d keep-alives were %d statements, want as many", leases, now-calls, after-before)
	}
}
