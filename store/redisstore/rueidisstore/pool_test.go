// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/rueidis"
)

// TestSmallPool: with a blocking pool of one or two connections nothing waits for a third.
// Calls do without a dedicated connection, and a subscription takes theirs.
func TestSmallPool(t *testing.T) {
	for size := 1; size <= 2; size++ {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			server := redistest.Start(t)
			store := smallPool(t, server.Addr, size)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if _, err := store.Check(ctx); err != nil {
				t.Fatalf("check: %v", err)
			}
			waiter, holder := locks(t, store), locks(t, store)
			for range 320 { // far more than need a connection: the connections of calls take what there is
				l, err := waiter.Mutex("fast").Lock(ctx)
				if err == nil {
					err = l.Unlock(ctx)
				}
				if err != nil {
					t.Fatalf("lock and unlock: %v", err)
				}
			}
			held, err := holder.Mutex("x").Lock(ctx)
			must.OK(t, err)
			got := make(chan error, 1)
			go func() {
				_, err := waiter.Mutex("x").Lock(ctx)
				got <- err
			}()
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for subscribed := 0; subscribed == 0; <-tick.C {
				channels, err := server.Do("PUBSUB", "CHANNELS").StringSlice()
				if subscribed = len(channels); err != nil || ctx.Err() != nil {
					t.Fatalf("nobody listens: %v, %v", err, ctx.Err())
				}
			}
			must.OK(t, held.Unlock(ctx))
			if err := <-got; err != nil {
				t.Fatalf("handed off: %v", err)
			}
			short, end := context.WithTimeout(ctx, time.Second)
			defer end()
			if _, err := store.Check(short); size == 1 && !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("check while a subscription uses the only connection: %v", err)
			}
		})
	}
}

// TestCheckLeavesNoConnections: the connections that a check opens are closed when it returns. rueidis would
// keep them in its pool, and send a PING over each of them every second.
func TestCheckLeavesNoConnections(t *testing.T) {
	server := redistest.Start(t)
	store := smallPool(t, server.Addr, rueidis.DefaultPoolSize)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	connected := func() int {
		clients, err := server.Do("CLIENT", "LIST").Text()
		must.OK(t, err)
		return strings.Count(clients, "\n")
	}
	before := connected()
	if _, err := store.Check(ctx); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for connected() > before+1 { // the shared connection may be new
		select {
		case <-tick.C: // the server has to notice that they are closed
		case <-ctx.Done():
			t.Fatalf("%d connections after a check, %d before", connected(), before)
		}
	}
}

// smallPool returns a store on a client with so many connections for blocking calls.
func smallPool(t *testing.T, addr string, size int) *Store {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, BlockingPoolSize: size,
	})
	must.OK(t, err)
	t.Cleanup(client.Close)
	store, err := New(client, nil)
	must.OK(t, err)
	return store
}

func locks(t *testing.T, s *Store) *fencelock.Client {
	t.Helper()
	c, err := fencelock.New(s, nil)
	must.OK(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}
