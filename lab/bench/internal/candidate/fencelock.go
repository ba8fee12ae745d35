// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// ours is a client of fencelock with default options, on any store.
type ours struct {
	*shared
	client *fencelock.Client
	store  driver.Store
}

// StoreOf returns the store of a locker of ours.
func StoreOf(l Locker) (driver.Store, error) {
	o, ok := l.(*ours)
	if !ok {
		return nil, fmt.Errorf("%T is not a locker of ours", l)
	}
	return o.store, nil
}

// Reading returns a locker of ours that shares every lock.
func Reading(l Locker) (Locker, error) {
	o, ok := l.(*ours)
	if !ok {
		return nil, fmt.Errorf("%T is not a locker of ours", l)
	}
	return reader{o}, nil
}

// OnStore opens n clients, each with its own session, on a store that the caller closes.
func OnStore(store driver.Store, n int) ([]Locker, error) { return openOurs(store, n, func() {}) }

// owner is the same for all: the default has the number of the process, and its digits are bytes of each lock.
const owner = "root@bench-host:12345"

// openOurs opens n clients, each with its own session, on one store.
func openOurs(store driver.Store, n int, closeStore func()) ([]Locker, error) {
	users := &shared{users: n, close: closeStore}
	lockers := make([]Locker, n)
	for i := range lockers {
		client, err := fencelock.New(store, &fencelock.Options{Owner: owner})
		if err != nil {
			closeStore()
			return nil, err
		}
		lockers[i] = &ours{users, client, store}
	}
	return lockers, nil
}

// Do implements Locker.
func (o *ours) Do(ctx context.Context, name string, section func()) error {
	l, err := o.client.Mutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	if section != nil {
		section()
	}
	return l.Unlock(context.WithoutCancel(ctx)) // the time of a measurement ends in the middle of one
}

// Hold implements Locker.
func (o *ours) Hold(ctx context.Context, name string) error {
	_, err := o.client.Mutex(name).Lock(ctx)
	return err
}

// Close implements Locker. It gives the client a moment to end its session, so
// that the next measurement does not pay for this one; a holder of a million
// leases is not waited for.
func (o *ours) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = o.client.Close(ctx)
	o.shared.Close()
}
