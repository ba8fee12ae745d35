// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"sync"
	"time"
)

// contended are the locks for which claims of this store were queued a moment ago.
type contended struct {
	mu    sync.Mutex
	since map[string]time.Time
}

const (
	// contendedFor is how long a lock counts as contended after a claim for it was queued.
	contendedFor = 10 * time.Second
	maxContended = 1000
)

func (c *contended) has(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.since[name]
	return ok && time.Since(at) < contendedFor
}

func (c *contended) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since == nil || len(c.since) >= maxContended {
		c.since = map[string]time.Time{}
	}
	c.since[name] = time.Now()
}

// remove notes that a lock was found free.
func (c *contended) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.since, name)
}
