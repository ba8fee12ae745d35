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
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		var lockers []Locker
		for range n { // each with its own connections, as a process has
			store, err := memcachestore.New(at.Addr, nil)
			if err != nil {
				closeAll(lockers)
				return nil, err
			}
			one, err := openOurs(store, 1, func() { _ = store.Close() })
			if err != nil {
				closeAll(lockers)
				return nil, err
			}
			lockers = append(lockers, one...)
		}
		return lockers, nil
	},
}

// openMemcached opens lockers that poll after a while, or never if it is 0.
func openMemcached(again time.Duration) func(context.Context, Place, int) ([]Locker, error) {
	return func(_ context.Context, at Place, n int) ([]Locker, error) {
		lockers := make([]Locker, n)
		for i := range lockers {
			client := memcache.New(at.Addr)
			client.MaxIdleConns, client.Timeout = 128, 10*time.Second
			lockers[i] = &memcachedAdd{client, again}
		}
		return lockers, nil
	}
}

type memcachedAdd struct {
	client *memcache.Client
	again  time.Duration
}

// key is a name as memcached allows it: without spaces.
func (m *memcachedAdd) key(name string) string { return url.PathEscape(name) }

func (m *memcachedAdd) take(ctx context.Context, name string) error {
	for {
		err := m.client.Add(&memcache.Item{Key: m.key(name), Value: []byte(nextValue()), Expiration: 15})
		if !errors.Is(err, memcache.ErrNotStored) {
			return err
		}
		if m.again == 0 {
			return errTaken
		}
		select {
		case <-time.After(m.again):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Do implements Locker.
func (m *memcachedAdd) Do(ctx context.Context, name string, section func()) error {
	if err := m.take(ctx, name); err != nil {
		return err
	}
	if section != nil {
		section()
	}
	return m.client.Delete(m.key(name))
}

// Hold implements Locker.
func (m *memcachedAdd) Hold(ctx context.Context, name string) error { return m.take(ctx, name) }

// Close implements Locker.
func (m *memcachedAdd) Close() { _ = m.client.Close() }
