// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// A cache is what the processes share: Redis or memcached, say.
type cache interface {
	// get returns a value, "" if the key has none, and whether the value is fresh.
	get(ctx context.Context, key string) (value string, fresh bool)
	set(ctx context.Context, key, value string)
}

// cached returns a value and loads it if need be, and so that the backend sees one
// load and not a thousand when all miss at once. The lock is for efficiency: if it
// cannot be had in time, the value is loaded without it, because a slow answer is
// worse than one load more.
//
// Goroutines of one process share one queue, so the store sees one claim for each
// process. Hold the lock of a key, and not one for the whole cache.
func cached(ctx context.Context, locks *fencelock.Client, c cache, key string, load func(ctx context.Context) (string, error)) (string, error) {
	value, fresh := c.get(ctx, key)
	if fresh {
		return value, nil
	}
	mu := locks.Mutex("cache/" + key)
	var l *fencelock.Lease
	var err error
	if value != "" { // old: one refreshes it, the others take it as it is
		if l, err = mu.TryLock(ctx); errors.Is(err, fencelock.ErrBusy) || errors.Is(err, fencelock.ErrGrace) {
			return value, nil
		}
	} else {
		wait, cancel := context.WithTimeout(ctx, 5*time.Second) // longer than a load takes
		defer cancel()
		if l, err = mu.Lock(wait); err != nil && ctx.Err() != nil {
			return "", err
		}
	}
	if l != nil {
		defer l.Unlock(ctx)                         // what it says changes nothing here
		if value, fresh := c.get(ctx, key); fresh { // loaded while we waited
			return value, nil
		}
	}
	loaded, err := load(ctx)
	switch {
	case err == nil:
		c.set(ctx, key, loaded)
		return loaded, nil
	case value != "":
		return value, nil // old is better than nothing
	}
	return "", err
}

// Fifty requests in each of two processes miss the same key; later it is old.
func Example_cache() {
	ctx := context.Background()
	store := memstore.New(nil) // in a program: memcachestore.Open(ctx, url, nil) will do
	c := &fakeCache{}
	var loads atomic.Int64
	load := func(context.Context) (string, error) {
		return fmt.Sprintf("version %d", loads.Add(1)), nil
	}
	storm := func() {
		var requests sync.WaitGroup
		for _, name := range []string{"web-1", "web-2"} {
			locks := process(store, name)
			defer locks.Close(ctx)
			for range 50 {
				requests.Go(func() {
					if v, err := cached(ctx, locks, c, "front-page", load); v == "" || err != nil {
						fmt.Println("no value:", err)
					}
				})
			}
		}
		requests.Wait()
		v, _ := c.get(ctx, "front-page")
		fmt.Println("100 requests, the cache has", v)
	}
	storm()
	c.age()
	storm()

	// The backend fails: the old value has to do.
	c.age()
	locks := process(store, "web-1")
	defer locks.Close(ctx)
	v, err := cached(ctx, locks, c, "front-page", func(context.Context) (string, error) { return "", errors.New("backend is down") })
	fmt.Println("without a backend:", v, err)
	// Output:
	// 100 requests, the cache has version 1
	// 100 requests, the cache has version 2
	// without a backend: version 2 <nil>
}

type fakeCache struct {
	mu    sync.Mutex
	value string
	fresh bool
}

func (c *fakeCache) get(context.Context, string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, c.fresh
}

func (c *fakeCache) set(_ context.Context, _, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value, c.fresh = value, true
}

func (c *fakeCache) age() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fresh = false
}
