// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// account is a resource with a guard: it remembers the newest token it has seen
// and refuses older ones.
type account struct {
	fence   fencelock.Token
	balance int
}

func (a *account) set(balance int, token fencelock.Token) error {
	if token < a.fence {
		return fmt.Errorf("token %v is older than %v", token, a.fence)
	}
	a.fence, a.balance = token, balance
	return nil
}

// A holder is cut off from the store. Its context is canceled, with the reason, before
// another client gets the lock. If the holder writes anyway, the resource rejects its
// token.
func Example_lost() {
	ctx := context.Background()
	store := memstore.New(nil)
	opts := &fencelock.Options{TTL: 300 * time.Millisecond}

	// This process can lock, but none of its renewals arrives.
	cutOff, err := faultstore.Wrap(store, faultstore.MustParse("on(keepalive, lose(request))"), nil)
	if err != nil {
		log.Fatal(err)
	}
	a, err := fencelock.New(cutOff, opts)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close(ctx)
	b, err := fencelock.New(store, opts)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close(ctx)

	var acc account
	old, err := a.Mutex("account/7").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a writes:", acc.set(100, old.Token()))

	<-old.Context().Done() // a real program passes this context to its calls
	cause := context.Cause(old.Context())
	fmt.Println("a was notified:", errors.Is(cause, fencelock.ErrLost))
	fmt.Println(cause)

	lease, err := b.Mutex("account/7").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("b writes:", acc.set(70, lease.Token()))
	fmt.Println("a writes late:", acc.set(100, old.Token()) != nil, acc.balance)
	fmt.Println(lease.Unlock(ctx))
	// Output:
	// a writes: <nil>
	// a was notified: true
	// fencelock: lease lost: session not renewed in time
	// b writes: <nil>
	// a writes late: true 70
	// <nil>
}
