// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/memstore"
)

// tenants are those that this process works for, a lease for each. However many
// they are, one keep-alive every third of a TTL carries them all, and a lease has
// neither a goroutine nor a timer.
type tenants struct {
	me    string
	locks *fencelock.Client

	mu    sync.Mutex
	owned map[string]*fencelock.Lease
}

// newTenants hears of losses through a hook: a goroutine for each lease, waiting for
// its context, would cost more than the lease.
func newTenants(store driver.Store, me string, opened *atomic.Int64) (*tenants, error) {
	t := &tenants{me: me, owned: map[string]*fencelock.Lease{}}
	hooks := fencelock.Hooks{Event: func(e fencelock.Event) { // runs inline: be quick, and do not call the client
		switch e.Kind {
		case fencelock.LeaseLost:
			t.drop(e.Name, e.Token) // and stop working for that tenant
		case fencelock.SessionOpened:
			opened.Add(1)
		}
	}}
	locks, err := fencelock.New(store, &fencelock.Options{Owner: me, Hooks: hooks})
	t.locks = locks
	return t, err
}

// drop compares the token: a loss may be reported when the tenant is ours again.
func (t *tenants) drop(name string, token fencelock.Token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.owned[name]; l != nil && l.Token() == token {
		delete(t.owned, name)
	}
}

// rebalance takes what should be ours and is free, and gives back what should be
// another's. Call it when the list of members changes, and now and then: it repairs
// whatever went wrong the last time. The list only has who should own what, and it
// does no harm if processes disagree on it for a while; the locks decide who does.
func (t *tenants) rebalance(ctx context.Context, names, members []string) error {
	work := make(chan string)
	var workers sync.WaitGroup
	var failed error
	var once sync.Once
	for range 64 { // calls of one process at the same time share round trips
		workers.Go(func() {
			for name := range work {
				if err := t.assign(ctx, name, members[crc32.ChecksumIEEE([]byte(name))%uint32(len(members))]); err != nil {
					once.Do(func() { failed = err })
				}
			}
		})
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	workers.Wait()
	return failed
}

// assign takes one tenant or gives it back.
func (t *tenants) assign(ctx context.Context, name, owner string) error {
	t.mu.Lock()
	l := t.owned[name]
	t.mu.Unlock()
	switch {
	case owner == t.me && l == nil:
		l, err := t.locks.Mutex(name).TryLock(ctx)
		if errors.Is(err, fencelock.ErrBusy) || errors.Is(err, fencelock.ErrGrace) {
			return nil // its owner has not given it back yet, or no locks are granted for now
		}
		if err != nil {
			return err
		}
		t.mu.Lock()
		t.owned[name] = l
		t.mu.Unlock()
		if l.Err() != nil { // lost before it was in the map
			t.drop(name, l.Token())
		}
	case owner != t.me && l != nil:
		// Finish what is under way for the tenant, then:
		t.drop(name, l.Token())
		return l.Unlock(ctx)
	}
	return nil
}

// A hundred thousand tenants on one process, then on two.
func Example_tenants() {
	ctx := context.Background()
	store := memstore.New(nil) // in a program: redisstore.Open(ctx, url, nil)
	names := make([]string, 100_000)
	for i := range names {
		names[i] = fmt.Sprintf("tenants/%06d", i)
	}
	var sessions atomic.Int64
	a, errA := newTenants(store, "a", &sessions)
	b, errB := newTenants(store, "b", &sessions)
	if errA != nil || errB != nil {
		fmt.Println(errA, errB)
		return
	}
	defer a.locks.Close(ctx) // gives back what is left: no process waits for a TTL
	defer b.locks.Close(ctx)

	fmt.Println(a.rebalance(ctx, names, []string{"a"}))
	fmt.Println("a owns", len(a.owned), "with sessions:", sessions.Load())

	members := []string{"a", "b"} // b has come
	fmt.Println(a.rebalance(ctx, names, members), b.rebalance(ctx, names, members))
	fmt.Println("a owns", len(a.owned), "and b", len(b.owned), "with sessions:", sessions.Load())
	// Output:
	// <nil>
	// a owns 100000 with sessions: 1
	// <nil> <nil>
	// a owns 50000 and b 50000 with sessions: 2
}
