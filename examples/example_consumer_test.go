// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// An answer is what a consumer returns to its queue.
type answer string

const (
	ack   answer = "ack"   // done, do not deliver it again
	later answer = "later" // deliver it again
)

// redelivery is the longest time after which the queue may deliver a message again.
const redelivery = 24 * time.Hour

// consume handles a message that may be delivered several times, to several consumers
// at once. A lock alone keeps them from working at the same time, and the second
// would begin when the first is done; Once leaves a mark that the work is done.
//
// A message can still be handled twice in two cases: the process dies after the effect
// and before the mark, or the store loses its data, because marks are not restored,
// with a grace period or without. So make the effect idempotent, with the id of the
// message as its key. If the effect is a write to one database, a unique key on the id
// in the same transaction is enough, and no lock is needed.
func consume(ctx context.Context, locks *fencelock.Client, id string, handle func(ctx context.Context) error) (answer, error) {
	res, err := locks.Once("orders-consumer", redelivery).Do(ctx, id, func(ctx context.Context, _ *fencelock.Lease) error {
		return handle(ctx) // ctx ends if the lease is lost: another may have begun
	})
	switch {
	case err != nil:
		return later, err
	case !res.Done:
		return later, nil // another consumer has it, and may still fail
	}
	return ack, nil
}

// Deliveries with a repetition, a failure, and the same message twice at once.
func Example_consumer() {
	ctx := context.Background()
	store := memstore.New(nil) // in a program: redisstore.Open(ctx, url, nil)
	one, two := process(store, "consumer-1"), process(store, "consumer-2")
	defer one.Close(ctx)
	defer two.Close(ctx)

	charge := func(context.Context) error { fmt.Println("  charged"); return nil }
	show := func(what string, a answer, err error) { fmt.Println(what, "->", a, err) }

	a, err := consume(ctx, one, "m-1", charge)
	show("m-1", a, err)
	a, err = consume(ctx, two, "m-1", charge)
	show("m-1, delivered again", a, err)

	a, err = consume(ctx, one, "m-2", func(context.Context) error { return errors.New("card service is down") })
	show("m-2", a, err)
	a, err = consume(ctx, two, "m-2", charge)
	show("m-2, delivered again", a, err)

	a, err = consume(ctx, one, "m-3", func(ctx context.Context) error {
		a, err := consume(ctx, two, "m-3", charge)
		show("m-3, delivered at the same time", a, err)
		return charge(ctx)
	})
	show("m-3", a, err)
	// Output:
	//   charged
	// m-1 -> ack <nil>
	// m-1, delivered again -> ack <nil>
	// m-2 -> later card service is down
	//   charged
	// m-2, delivered again -> ack <nil>
	// m-3, delivered at the same time -> later <nil>
	//   charged
	// m-3 -> ack <nil>
}
