// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// stickyLinger bounds what a lost notice costs another process. It is short beside the TTL,
// and long beside the time between two messages of a tenant.
const stickyLinger = time.Second

// handleFor handles one message of a tenant under its lock. The broker routes a tenant to the
// same worker as long as it can, so the lock lingers there: the next message takes it without
// a round trip. When the tenant moves to another worker, its lock follows at once.
func handleFor(ctx context.Context, locks *fencelock.Client, tenant string, handle func(ctx context.Context, token fencelock.Token) error) error {
	lock := locks.Mutex("tenants/"+tenant, fencelock.Linger(stickyLinger))
	return lock.Do(ctx, func(ctx context.Context, l *fencelock.Lease) error {
		return handle(ctx, l.Token()) // every message has a fresh token, for the guard
	})
}

// A thousand messages of four tenants on one worker, then one on another worker.
func Example_sticky() {
	ctx := context.Background()
	store := memstore.New(nil) // in a program: redisstore.Open(ctx, url, nil)
	calls, rising := 0, true   // grants by the store, and whether tokens rise
	a, err := fencelock.New(store, &fencelock.Options{Owner: "a", Hooks: fencelock.Hooks{Event: func(e fencelock.Event) {
		if e.Kind == fencelock.LeaseGranted {
			calls++
		}
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	b := process(store, "b")
	defer a.Close(ctx)
	defer b.Close(ctx)

	last := map[string]fencelock.Token{}
	message := func(worker *fencelock.Client, tenant string) error {
		return handleFor(ctx, worker, tenant, func(_ context.Context, token fencelock.Token) error {
			rising = rising && token > last[tenant]
			last[tenant] = token
			return nil
		})
	}
	for i := range 1000 {
		if err := message(a, fmt.Sprint(i%4)); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("1000 messages, locks that the store granted:", calls)
	fmt.Println("a message of tenant 3 on another worker:", message(b, "3"))
	fmt.Println("tokens rise:", rising)
	// Output:
	// 1000 messages, locks that the store granted: 4
	// a message of tenant 3 on another worker: <nil>
	// tokens rise: true
}
