// SPDX-License-Identifier: Apache-2.0

package faultstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// The reply to the first attempt gets lost. The store has granted the lock, the
// caller cannot know; asking again with the same claim finds the grant.
func ExampleWrap() {
	fault := faultstore.MustParse(`on(attempt, nth(1, lose(reply)))`)
	store, err := faultstore.Wrap(memstore.New(nil), fault, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	session, _, err := store.Open(ctx, driver.OpenRequest{
		Shard: store.Shard("orders/42"), ID: driver.NewSessionID(), TTL: 30 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	claim := &driver.Claim{
		Seq: 1, Name: "orders/42", Terms: &driver.Terms{Weight: 1, Record: new(driver.Record)},
	}

	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = session.Attempt(short, claim)
	fmt.Println("unknown:", errors.Is(err, driver.ErrUnknown))

	outcome, err := session.Attempt(ctx, claim)
	fmt.Println(outcome.State, err)
	fmt.Println(store.Injected())
	// Output:
	// unknown: true
	// granted <nil>
	// map[lose(reply):1]
}

// Faults are built in code or from text, and print as text.
func ExampleParse() {
	built := faultstore.Any(
		faultstore.On(faultstore.Attempt, faultstore.Prob(0.2, 7, faultstore.LoseReply())),
		faultstore.During(3*time.Second, 5*time.Second, faultstore.LoseRequest()),
		faultstore.Nth(4, faultstore.Delay(250*time.Millisecond, 0)),
		faultstore.On(faultstore.Withdraw, faultstore.Dup()),
	)
	fmt.Println(built)

	read, err := faultstore.Parse(built.String())
	fmt.Println(read.String() == built.String(), err)

	_, err = faultstore.Parse("on(withdraw, twice)")
	fmt.Println(err)
	// Output:
	// any(on(attempt, prob(0.2, 7, lose(reply))), during(3s, 5s, lose(request)), nth(4, delay(250ms, 0s)), on(withdraw, dup))
	// true <nil>
	// faultstore: fault at character 14, `twice`: want a fault: one of none, dup, refuse, fail, lose, reset, delay, step, pause, cut, on, name, nth, after, prob, during, for, any
}

// A test of a program puts faults between the program's client and its store. Here the
// first attempt to acquire a lock fails; the client retries.
func Example() {
	fault := faultstore.MustParse(`on(attempt, nth(1, refuse))`)
	store, err := faultstore.Wrap(memstore.New(nil), fault, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	locks, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	lease, err := locks.Mutex("orders/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holding", lease.Name())
	fmt.Println("unlock:", lease.Unlock(ctx))
	fmt.Println(store.Injected())
	// Output:
	// holding orders/42
	// unlock: <nil>
	// map[refuse:1]
}
