// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestPoolerRestarts: a pooler that is restarted costs time, not locks. One process says
// that there is a pooler, the other finds out.
func TestPoolerRestarts(t *testing.T) {
	t.Parallel()
	server := need(t, postgres)
	pooler := need(t, server.Pgbouncer)
	t.Cleanup(pooler.Stop)
	port := spared(t, pooler)
	opts := onPgbouncer.space(t, onPostgres.connect(t, server.Port))
	notified := opts
	notified.Pooler = true
	holder := client(t, onPgbouncer.store(t, onPgbouncer.connect(t, port), &notified), 30*time.Second)
	waiter := client(t, onPgbouncer.store(t, onPgbouncer.connect(t, port), &opts), 30*time.Second)
	l := lock(t, holder, "x")
	type result struct {
		lease *fencelock.Lease
		err   error
	}
	got := make(chan result, 1)
	ctx, cancel := context.WithTimeout(ctxb, time.Minute)
	defer cancel()
	go func() {
		l, err := waiter.Mutex("x").Lock(ctx)
		got <- result{l, err}
	}()
	must.OK(t, pooler.Restart())
	if err := l.Err(); err != nil {
		t.Errorf("the lease did not outlive the pooler: %v", err)
	}
	if err := l.Unlock(ctxb); err != nil && !errors.Is(err, fencelock.ErrUnavailable) {
		t.Errorf("unlock after the pooler's restart: %v", err)
	}
	next := <-got
	if next.err != nil || next.lease.Token() <= l.Token() {
		t.Errorf("the next holder is %v, %v, after token %v", next.lease, next.err, l.Token())
	}
}

// TestPoolerThatPreparesIsFoundOut: a pooler that keeps prepared statements apart, as
// pgbouncer does since 1.21, is found out by the process that answers on the connection.
func TestPoolerThatPreparesIsFoundOut(t *testing.T) {
	t.Parallel()
	db := onPgbouncer.connect(t, spared(t, need(t, pgbouncer)))
	opts := onPgbouncer.space(t, db)
	s := onPgbouncer.store(t, db, &opts)
	if found, err := sqlstore.BehindPooler(ctxb, s); err != nil || !found {
		t.Errorf("through the pooler: %t, %v; want true", found, err)
	}
	direct := onPostgres.store(t, onPostgres.connect(t, need(t, postgres).Port), &opts)
	if found, err := sqlstore.BehindPooler(ctxb, direct); err != nil || found {
		t.Errorf("without the pooler: %t, %v; want false", found, err)
	}
}

// TestPoolerIsFoundOut: without a word in the options the store notices that what it has
// prepared is on another connection, and that notifications do not arrive.
func TestPoolerIsFoundOut(t *testing.T) {
	t.Parallel()
	db := onPgbouncer.connect(t, spared(t, need(t, pgbouncer)))
	opts := onPgbouncer.space(t, db)
	s := onPgbouncer.store(t, db, &opts)
	const workers = 8
	var inside atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctxb, 4*time.Minute)
	defer cancel()
	for range workers {
		c := client(t, s, 30*time.Second)
		wg.Go(func() {
			for range 10 {
				err := c.Do(ctx, "x", func(context.Context, *fencelock.Lease) error {
					if inside.Add(1) != 1 {
						t.Error("two holders at a time")
					}
					inside.Add(-1)
					return nil
				})
				if err != nil && !errors.Is(err, fencelock.ErrUnavailable) { // an unlock that was not confirmed in time
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// The greeting that does not arrive is waited for, and the handoffs may be over before.
	eventually(t, "that Check notes the pooler", func() bool {
		findings, err := s.Check(ctxb)
		return err == nil && has(findings, "pooler")
	})
}

// spared returns the port of a proxy that keeps from a pooler what it cannot bear.
func spared(t *testing.T, pooler *servers.Server) int {
	p, err := servers.NewProxy(pooler.Addr)
	must.OK(t, err)
	t.Cleanup(p.Close)
	spare(t, p)
	return p.Port
}

// spare drops the requests to cancel statements that go to a pgbouncer before 1.21, which may
// end by one; a newer one gets them.
func spare(t *testing.T, p *servers.Proxy) {
	version, err := servers.Installed("PGBOUNCER", "")
	must.OK(t, err)
	var major, minor int
	_, err = fmt.Sscanf(version, "%d.%d", &major, &minor)
	must.OK(t, err)
	if major < 1 || major == 1 && minor < 21 {
		p.DropCancels()
	}
}

func has(findings []driver.Finding, code string) bool {
	for _, f := range findings {
		if f.Code == code {
			return true
		}
	}
	return false
}
