// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"slices"
	"sync"
)

// Channel is a channel of one process for each name, which grants in the order of the
// requests: the least that waiting inside a process costs a program with many names. A
// program with one channel and no names pays less. It excludes no other process.
var Channel = &Candidate{
	Name: "channel", Settings: "a Go channel with room for one, in one process; each turn also pays for finding it by name, in a map under an RWMutex", Waits: true,
	Open: func(_ context.Context, _ Place, n int) ([]Locker, error) {
		one := &channels{byName: map[string]chan struct{}{}}
		return slices.Repeat([]Locker{one}, n), nil
	},
}

type channels struct {
	mu     sync.RWMutex
	byName map[string]chan struct{}
}

func (c *channels) of(name string) chan struct{} {
	c.mu.RLock()
	ch := c.byName[name]
	c.mu.RUnlock()
	if ch != nil {
		return ch
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ch = c.byName[name]
	if ch == nil {
		ch = make(chan struct{}, 1)
		c.byName[name] = ch
	}
	return ch
}

// Lock implements Locker.
func (c *channels) Lock(ctx context.Context, name string) (Held, error) {
	ch := turn(c.of(name))
	select {
	case ch <- struct{}{}:
		return ch, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// turn is a channel that has been filled.
type turn chan struct{}

// Unlock implements Held.
func (t turn) Unlock(context.Context) error { <-t; return nil }

// Close implements Locker.
func (c *channels) Close() {}
