// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/memstore"
)

// lead does batches as long as this process leads. Two contexts tell it to stop,
// and they mean different things:
//
//   - ctx ends when the term should end: a deployment, Resign, or a loss. No further
//     batch is begun.
//   - term.Context ends when the lease is lost, and not before. Then another may
//     lead already, so the batch stops in the middle.
//
// Run gives the lock back when the function returns, so the next leader begins after
// the last batch, and at once: it does not wait for a TTL.
func lead(ctx context.Context, e *fencelock.Election, batch func(ctx context.Context, term fencelock.Token) error) error {
	return e.Run(ctx, func(ctx context.Context, term *fencelock.Lease) error {
		for ctx.Err() == nil {
			// The token is the number of the term: refuse a smaller one where
			// the batch is written to.
			if err := batch(term.Context(), term.Token()); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// A leader is asked to hand over in the middle of a batch.
func Example_leader() {
	store := memstore.New(nil) // in a program: redisstore.Open(ctx, url, nil)
	type replica struct {
		election *fencelock.Election
		began    chan fencelock.Token // a batch, with its term
		finish   chan struct{}        // and its end
	}
	inLine := make(chan string, 3) // who waits
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	begin := func(name string) *replica {
		locks, err := fencelock.New(store, &fencelock.Options{Owner: name, Hooks: fencelock.Hooks{
			AcquireWait: func(context.Context, fencelock.AcquireWait) { inLine <- name },
		}})
		if err != nil {
			log.Fatal(err)
		}
		r := &replica{locks.Election("billing"), make(chan fencelock.Token), make(chan struct{})}
		go func() {
			defer locks.Close(context.WithoutCancel(ctx))
			ended <- lead(ctx, r.election, func(ctx context.Context, term fencelock.Token) error {
				r.began <- term
				select {
				case <-r.finish:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
		}()
		return r
	}

	a := begin("replica-a")
	first := <-a.began
	b := begin("replica-b")
	fmt.Println(<-inLine, "is in line")

	// The machine of a is to be drained.
	resigned := make(chan error)
	go func() { resigned <- a.election.Resign(ctx) }()
	select {
	case <-b.began:
		fmt.Println("b leads while a is in the middle of a batch")
	case a.finish <- struct{}{}:
		fmt.Println("a ends its batch")
	}
	// a may have begun one more batch before it was told; it ends that one too.
	for over := false; !over; {
		select {
		case err := <-resigned:
			fmt.Println("a has handed over:", err)
			over = true
		case <-a.began:
			a.finish <- struct{}{}
		}
	}
	second := <-b.began
	fmt.Println("b leads, in a later term:", second > first)

	stop() // both are asked to end
	b.finish <- struct{}{}
	fmt.Println(<-ended, "/", <-ended)
	// Output:
	// replica-b is in line
	// a ends its batch
	// a has handed over: <nil>
	// b leads, in a later term: true
	// context canceled / context canceled
}
