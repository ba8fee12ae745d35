// SPDX-License-Identifier: Apache-2.0

// Command limit makes calls to a service, of which all replicas together make at most two at a time.
//
//	go run ./examples/limit & go run ./examples/limit
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/internal/start"
)

func main() { start.Main(run) }

func run(ctx context.Context, locks *fencelock.Client) error {
	exports := locks.Semaphore("exports", 2)
	var calls sync.WaitGroup
	errs := make([]error, 5)
	for i := range errs {
		calls.Go(func() { errs[i] = call(ctx, exports, i) })
	}
	calls.Wait()
	return errors.Join(errs...)
}

func call(ctx context.Context, exports *fencelock.Semaphore, i int) error {
	return exports.Do(ctx, 1, func(ctx context.Context, permit *fencelock.Lease) error {
		fmt.Println("begin", i)
		defer fmt.Println("end", i)
		select {
		case <-time.After(100 * time.Millisecond): // the call
			return nil
		case <-ctx.Done(): // the permit is lost, or the program is asked to end
			return ctx.Err()
		}
	})
}
