// SPDX-License-Identifier: Apache-2.0

package memcachestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/fencelock/fencelock/driver"
)

// call is one call of the store while it makes its steps. The steps of a call whose
// context has ended go on to the end of the step under way, and no further.
type call struct {
	ctx    context.Context
	client *memcache.Client
	op     string
	// wrote is set when a step may have changed something: what fails after it
	// is not "certainly nothing".
	wrote bool
}

// run makes the steps of a call, and returns when ctx ends even if a step has not:
// the client library knows timeouts but no contexts.
func run[T any](ctx context.Context, s *Store, op string, steps func(*call) (T, error)) (T, error) {
	var zero T
	c := &call{ctx: ctx, client: s.client, op: op}
	if err := c.over(); err != nil {
		return zero, err
	}
	if ctx.Done() == nil {
		return steps(c)
	}
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := steps(c)
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		return zero, fmt.Errorf("memcachestore: %s: %w: %w", op, driver.ErrUnknown, ctx.Err())
	}
}

// over returns the context's error. With nothing written nothing has happened.
func (c *call) over() error {
	switch err := c.ctx.Err(); {
	case err == nil:
		return nil
	case c.wrote:
		return fmt.Errorf("memcachestore: %s: %w: %w", c.op, driver.ErrUnknown, err)
	default:
		return fmt.Errorf("memcachestore: %s: %w", c.op, err)
	}
}

// item is an item of memcached, read into a value.
type item[V any] struct {
	raw *memcache.Item // nil if the item is missing
	v   V
}

// read gets items, in one step. Missing ones are missing in the answer.
func (c *call) read(keys ...string) (map[string]*memcache.Item, error) {
	if err := c.over(); err != nil {
		return nil, err
	}
	items, err := c.client.GetMulti(keys)
	if err != nil {
		return nil, c.failed(err)
	}
	return items, nil
}

// swappable returns an error for an item that the server cannot compare and swap: no lock could
// be given back.
func swappable(raw *memcache.Item) error {
	if raw.CasID != 0 {
		return nil
	}
	return fmt.Errorf("memcachestore: the server runs without cas, so no lock could be given back; start it without -C: %w", driver.ErrRefused)
}

// parse reads an item. An item that another program wrote is an error: it must not be
// overwritten.
func parse[V any](raw *memcache.Item) (item[V], error) {
	it := item[V]{raw: raw}
	if raw == nil {
		return it, nil
	}
	if err := json.Unmarshal(raw.Value, &it.v); err != nil {
		return it, fmt.Errorf("memcachestore: item %s was not written by this store; choose another Options.Namespace: %w", raw.Key, err)
	}
	return it, nil
}

// write stores a value if the item is still as it was read, or still missing. It
// returns false if it is not. A negative time removes the item.
func (c *call) write(key string, was *memcache.Item, v any, exp int32) (bool, error) {
	if err := c.over(); err != nil {
		return false, err
	}
	it := &memcache.Item{Key: key, Value: encode(v), Expiration: exp}
	var err error
	if was == nil {
		err = c.client.Add(it)
	} else {
		it.CasID = was.CasID
		err = c.client.CompareAndSwap(it)
	}
	switch {
	case err == nil:
		c.wrote = true
		return true, nil
	case errors.Is(err, memcache.ErrNotStored), errors.Is(err, memcache.ErrCASConflict), errors.Is(err, memcache.ErrCacheMiss):
		return false, nil
	}
	return false, c.failed(err)
}

// touch gets an item and gives it a new time to live. It returns nil if the item is
// missing.
func (c *call) touch(key string, exp int32) (*memcache.Item, error) {
	if err := c.over(); err != nil {
		return nil, err
	}
	it, err := c.client.GetAndTouch(key, exp)
	switch {
	case errors.Is(err, memcache.ErrCacheMiss):
		return nil, nil
	case err != nil:
		return nil, c.failed(err)
	}
	return it, nil
}

// remove removes an item, whatever it is.
func (c *call) remove(key string) error {
	if err := c.over(); err != nil {
		return err
	}
	if err := c.client.Delete(key); err != nil && !errors.Is(err, memcache.ErrCacheMiss) {
		return c.failed(err)
	}
	return nil
}

// failed returns what an error of the client library means. Certain are a connection
// that did not come about, and an answer.
func (c *call) failed(err error) error {
	if why := useless(err); why != "" {
		return fmt.Errorf("memcachestore: %s: %s: %w", c.op, why, err)
	}
	meaning := driver.ErrUnknown
	var dial *net.OpError
	var slow *memcache.ConnectTimeoutError
	switch {
	case c.wrote:
	case errors.As(err, &dial) && dial.Op == "dial", errors.As(err, &slow), refusal(err):
		meaning = driver.ErrUnavailable
	}
	if ended := c.ctx.Err(); ended != nil {
		return fmt.Errorf("memcachestore: %s: %w: %w: %w", c.op, meaning, ended, err)
	}
	return fmt.Errorf("memcachestore: %s: %w: %w", c.op, meaning, err)
}

// useless is why no call will ever succeed on a server that answered so, "" if one may.
func useless(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, `"CLIENT_ERROR unauthenticated`):
		return "the server wants a user and password (-Y), which this store does not support: use one without, that only trusted clients reach"
	case strings.Contains(text, `"ERROR\r\n"`):
		return "the server does not know a command that the store needs (add, cas, gets, gat): use memcached 1.5.3 or later, without a proxy"
	}
	return ""
}

// refusal reports whether the server answered that it did not do it, for example
// because its memory is full and it may not evict.
func refusal(err error) bool {
	return strings.Contains(err.Error(), `"SERVER_ERROR`) || strings.Contains(err.Error(), `"CLIENT_ERROR`) || strings.Contains(err.Error(), `"ERROR`)
}
