// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/memstore"
)

// lead does batches as long as this process leads. Two contexts stop it, and they mean
// different things:
//
//   - ctx ends when the term should end: a deployment, Resign, or a loss. No further
//     batch is begun.
//   - term.Context ends when the lease is lost, and not before. Then another process
//     may lead already, so the batch stops in the middle.
//
// Run releases the lock when the function returns, so the next leader begins right
// after the last batch: it does not wait for a TTL.
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

// A leader is asked to resign in the middle of a batch.
func Example_leader() {
	store := memstore.New(nil) // in a program: redisstore.Open(ctx, url, nil)
	ctx, stop := context.WithCancel(context.Background())
	a := newReplica(store, "replica-a")
	go a.run(ctx)
	first := <-a.began
	b := newReplica(store, "replica-b")
	go b.run(ctx)
	fmt.Println(<-b.queued, "is queued")

	// The node of a is to be drained.
	resigned := make(chan error)
	go func() { resigned <- a.election.Resign(ctx) }()
	select {
	case <-b.began:
		fmt.Println("b leads while a is in the middle of a batch")
	case a.finish <- struct{}{}:
		fmt.Println("a ends its batch")
	}
	// a may have begun one more batch before ctx ended; it ends that one too.
	for over := false; !over; {
		select {
		case err := <-resigned:
			fmt.Println("a has handed off:", err)
			over = true
		case <-a.began:
			a.finish <- struct{}{}
		}
	}
	second := <-b.began
	fmt.Println("b leads, in a later term:", second > first)

	stop() // both are asked to end
	b.finish <- struct{}{}
	fmt.Println(<-a.ended, "/", <-b.ended)
	// Output:
	// replica-b is queued
	// a ends its batch
	// a has handed off: <nil>
	// b leads, in a later term: true
	// context canceled / context canceled
}

// replica is one of the processes, with batches that the example ends by hand.
type replica struct {
	locks    *fencelock.Client
	election *fencelock.Election
	queued   chan string          // its name, when it has to wait
	began    chan fencelock.Token // a batch, with its term
	finish   chan struct{}        // and its end
	ended    chan error           // what lead returned
}

func newReplica(store driver.Store, name string) *replica {
	r := &replica{queued: make(chan string, 2), began: make(chan fencelock.Token), finish: make(chan struct{}), ended: make(chan error, 1)}
	locks, err := fencelock.New(store, &fencelock.Options{Owner: name, Hooks: fencelock.Hooks{
		AcquireWait: func(context.Context, fencelock.AcquireWait) { r.queued <- name },
	}})
	if err != nil {
		log.Fatal(err)
	}
	r.locks, r.election = locks, locks.Election("billing")
	return r
}

func (r *replica) run(ctx context.Context) {
	err := lead(ctx, r.election, func(ctx context.Context, term fencelock.Token) error {
		r.began <- term
		select {
		case <-r.finish:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if cerr := r.locks.Close(context.WithoutCancel(ctx)); cerr != nil {
		log.Fatal(cerr)
	}
	r.ended <- err
}
