// SPDX-License-Identifier: Apache-2.0

package native

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
)

const (
	// contendedFor is how long a name is known as contended after a process waited for it.
	contendedFor = 2 * time.Second
	// maxContended bounds how many names are known. Beyond it the names of before are
	// dropped, which costs each of them a round trip.
	maxContended = 4096
)

// contended are the names for which processes waited a moment ago. A lock of such a name is
// acquired and released by scripts: plain commands would need a script behind them.
type contended struct {
	off   bool // for tests: no name is known
	all   bool // for tests: every name is known
	any   atomic.Bool
	mu    sync.Mutex
	names map[string]time.Time
}

func (c *contended) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil || len(c.names) >= maxContended {
		c.names = map[string]time.Time{}
	}
	c.names[name] = time.Now()
	c.any.Store(true)
}

// waited notes that a claim waits for a name. A holder that lingers gives the lock back, and
// claims the name without Linger for a while: most likely no claim waits for it next time.
func (c *contended) waited(name string, holders []driver.Holder) {
	if slices.ContainsFunc(holders, func(h driver.Holder) bool { return h.Linger > 0 }) {
		c.remove(name)
	} else {
		c.add(name)
	}
}

func (c *contended) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.names, name)
	c.any.Store(len(c.names) > 0)
}

func (c *contended) has(name string) bool {
	if c.off || c.all || !c.any.Load() {
		return c.all
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.names[name]
	if ok && time.Since(at) > contendedFor {
		delete(c.names, name)
		c.any.Store(len(c.names) > 0)
		return false
	}
	return ok
}
