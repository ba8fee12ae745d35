// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/fencelock/fencelock/store/memcachestore"
)

// BareMemcached is what every lock on memcached at least does: an add and a delete.
var BareMemcached = &Candidate{
	Name: "bare-memcached", Server: "memcached", Settings: "add and delete; no waiting, nothing is compared",
	Open: openMemcached(0),
}

// MemcachedRecipe is the lock that memcached's users write: the bare pair, in a loop. It
// renews nothing, reports no loss, and deletes any key.
var MemcachedRecipe = &Candidate{
	Name: "memcached-add", Server: "memcached", Bare: "bare-memcached", Waits: true,
	Settings: "add with a time to live of 15 s, again every 10 ms while it is taken, and delete",
	Open:     openMemcached(10 * time.Millisecond),
}

// FencelockMemcached is fencelock on memcachestore.
var FencelockMemcached = &Candidate{
	Name: "fencelock-memcached", Server: "memcached", Bare: "bare-memcached", Settings: "defaults: TTL 15 s", Waits: true,
	Open: each(func(_ context.Context, addr string) (Locker, error) {
		store, err := memcachestore.New(addr, nil)
		if err != nil {
			return nil, err
		}
		return newOurs(store, func() { _ = store.Close() })
	}),
}

// openMemcached opens lockers that poll after a while, or never if it is 0.
func openMemcached(again time.Duration) func(context.Context, Place, int) ([]Locker, error) {
	return each(func(_ context.Context, addr string) (Locker, error) {
		client := memcache.New(addr)
		client.MaxIdleConns, client.Timeout = 128, 10*time.Second
		return &memcachedAdd{client, again}, nil
	})
}

type memcachedAdd struct {
	client *memcache.Client
	again  time.Duration
}

// Lock implements Locker.
func (m *memcachedAdd) Lock(ctx context.Context, name string) (Held, error) {
	key := url.PathEscape(name) // memcached allows no spaces
	for {
		err := m.client.Add(&memcache.Item{Key: key, Value: []byte(nextValue()), Expiration: 15})
		if !errors.Is(err, memcache.ErrNotStored) {
			return &memcachedKey{m.client, key}, err
		}
		if m.again == 0 {
			return nil, errTaken
		}
		select {
		case <-time.After(m.again):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

type memcachedKey struct {
	client *memcache.Client
	key    string
}

// Unlock implements Held.
func (k *memcachedKey) Unlock(context.Context) error { return k.client.Delete(k.key) }

// Close implements Locker.
func (m *memcachedAdd) Close() { _ = m.client.Close() }
