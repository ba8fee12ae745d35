// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

var cancelFor = flag.Duration("cancel.for", 6*time.Second, "how long callers with short contexts load the server")

// TestCanceledCallersKeepTheLeasesOfOthers: nothing is wrong with the server, and callers whose contexts end within milliseconds ask for
// locks that others want, too. Their calls must not hold up the keep-alives of the process, and other callers
// must be granted locks in time.
func TestCanceledCallersKeepTheLeasesOfOthers(t *testing.T) {
	t.Parallel()
	var lost atomic.Int64
	t.Run("libraries", func(t *testing.T) {
		for _, lib := range libraries {
			t.Run(lib.name, func(t *testing.T) {
				t.Parallel()
				lost.Add(cancelCallers(t, lib))
			})
		}
	})
	figure.Print("leases-lost-to-canceled-callers", lost.Load(), figure.Exactly(0))
}

// cancelCallers returns how many leases three processes lost. The leases are taken before the load begins: under it, on a
// machine with much else to do, a server may not answer within the StoreTimeout of so short a TTL, and Lock says so.
func cancelCallers(t *testing.T, lib library) int64 {
	server := redistest.Start(t)
	var clients [3]*fencelock.Client
	var leases [len(clients)]*fencelock.Lease
	for i := range clients {
		c, err := fencelock.New(ordinary(t, lib, server.Addr), &fencelock.Options{TTL: 5 * time.Second})
		must.OK(t, err)
		t.Cleanup(func() {
			bound, cancel := context.WithTimeout(context.Background(), slack)
			defer cancel()
			if err := c.Close(bound); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		l, err := c.Mutex(fmt.Sprint("long ", i)).Lock(t.Context())
		must.OK(t, err)
		clients[i], leases[i] = c, l
	}
	ctx, cancel := context.WithTimeout(t.Context(), *cancelFor)
	defer cancel()
	var wg sync.WaitGroup
	var calls, granted atomic.Int64
	for i, c := range clients {
		for j := range 4 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), uint64(j)))
				for ctx.Err() == nil {
					call, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(4000))*time.Microsecond)
					calls.Add(1)
					if l, err := c.Mutex(fmt.Sprint("short ", r.IntN(6))).Lock(call); err == nil {
						granted.Add(1)
						_ = l.Unlock(call)
					}
					cancel()
				}
			})
		}
	}
	wg.Wait()
	t.Logf("%d calls, %d granted", calls.Load(), granted.Load())
	var lost int64
	for i, l := range leases {
		if err := l.Err(); err != nil {
			lost++
			t.Errorf("process %d lost its lease: %v", i, err)
		}
	}
	return lost
}

// ordinary returns a store with the defaults of its library.
func ordinary(t *testing.T, lib library, addr string) driver.Store {
	t.Helper()
	if lib.name != "rueidis" {
		return lib.open(t, login{Addr: addr}, &native.Options{})
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	must.OK(t, err)
	t.Cleanup(client.Close)
	store, err := newRueidis(client, nil)
	must.OK(t, err)
	return store
}
