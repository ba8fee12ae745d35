// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"sync"
	"time"
)

// contended are the locks for which claims of this store were queued a moment ago.
type contended struct {
	mu    sync.Mutex
	locks map[string]contention
}

// contention is what a store knows of the waits for a lock.
type contention struct {
	queued time.Time     // when a claim was queued last
	place  int           // where that was
	pace   time.Duration // of a handoff; 0 if no claim was granted yet
}

const (
	// contendedFor is how long a lock counts as contended after a claim for it was queued.
	contendedFor = 10 * time.Second
	maxContended = 1000
)

// of returns what is known of a lock that is contended.
func (c *contended) of(name string) (contention, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.locks[name]
	if !ok || time.Since(l.queued) >= contendedFor {
		return contention{}, false
	}
	return l, true
}

// add notes that a claim was queued behind so many others.
func (c *contended) add(name string, place int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.locks == nil || len(c.locks) >= maxContended {
		c.locks = map[string]contention{}
	}
	c.locks[name] = contention{queued: time.Now(), place: place, pace: c.locks[name].pace}
}

// granted notes how long a claim has waited behind so many others.
func (c *contended) granted(name string, place int, waited time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l, ok := c.locks[name]; ok {
		l.pace = meanPace(l.pace, waited/time.Duration(place+1))
		c.locks[name] = l
	}
}

// remove notes that a lock was found free.
func (c *contended) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.locks, name)
}
