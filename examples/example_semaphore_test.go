// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// paymentCalls is how many calls the payment service allows us at a time, over all
// our processes. It is a limit of calls under way, and not of calls per second: for
// that use a rate limiter.
const paymentCalls = 3

// call makes one call to the service when there is room for it. weight is 1, or more
// for a call that the service counts as several. A permit is a lease: those of a
// process that died come back by themselves, which a counter in Redis cannot do.
//
// MaxHold bounds a call that hangs. It is far above the time-out of the call itself,
// or a slow call would be counted as over while it is under way.
func call(ctx context.Context, locks *fencelock.Client, weight int64, request func(ctx context.Context) error) error {
	permits := locks.Semaphore("payment-api", paymentCalls, fencelock.MaxHold(time.Minute))
	permit, err := permits.Acquire(ctx, weight) // queued, first come first served
	if err != nil {
		return err
	}
	defer permit.Unlock(ctx) // what it says changes nothing for the call that was made
	ctx, cancel := context.WithTimeout(permit.Context(), 10*time.Second)
	defer cancel()
	return request(ctx)
}

// Two processes with five workers each share three calls. When the service asks for
// less, SetLimit stores another limit for all of them, without a deployment.
func Example_semaphore() {
	ctx := context.Background()
	store := memstore.New(nil) // in a program: redisstore.Open(ctx, url, nil)
	work := func(limit int64) {
		var now, most, calls atomic.Int64
		full := make(chan struct{}) // closed when as many are under way as may be
		request := func(ctx context.Context) error {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			if calls.Add(1) == limit {
				close(full)
			}
			select {
			case <-full:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		var workers sync.WaitGroup
		for _, name := range []string{"web-1", "web-2"} {
			locks := process(store, name)
			defer locks.Close(ctx)
			for range 5 {
				workers.Go(func() {
					for range 20 {
						if err := call(ctx, locks, 1, request); err != nil {
							fmt.Println(err)
						}
					}
				})
			}
		}
		workers.Wait()
		fmt.Println(calls.Load(), "calls, at most", most.Load(), "at once")
	}
	work(paymentCalls)

	operator := process(store, "operator")
	defer operator.Close(ctx)
	if err := operator.Semaphore("payment-api", paymentCalls).SetLimit(ctx, 1); err != nil {
		fmt.Println(err)
	}
	work(1)
	// Output:
	// 200 calls, at most 3 at once
	// 200 calls, at most 1 at once
}
