// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"sync"

	"github.com/fencelock/fencelock/driver"
)

// resource is what a lock protects: a list that remembers the highest token it
// has seen. It refuses a writer below any token seen and a reader below a
// writer's, as a guarded table does; it knows nothing of leases or of time.
type resource struct {
	mu      sync.Mutex
	list    []driver.Token
	writers driver.Token // the highest that wrote or was about to
	readers driver.Token // the highest that read
	// counter is guarded by nothing but the lock: what it loses shows how often
	// holders overlapped in time.
	counter int
}

// read raises the fence and returns how long the list is.
func (r *resource) read(t driver.Token, mode driver.Mode) (n int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.admit(t, mode) {
		return 0, false
	}
	return len(r.list), true
}

// write appends and returns the place.
func (r *resource) write(t driver.Token) (n int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.admit(t, driver.Exclusive) {
		return 0, false
	}
	r.list = append(r.list, t)
	return len(r.list) - 1, true
}

func (r *resource) admit(t driver.Token, mode driver.Mode) bool {
	if t < r.writers || (mode == driver.Exclusive && t < r.readers) {
		return false
	}
	if mode == driver.Exclusive {
		r.writers = t
	} else {
		r.readers = max(r.readers, t)
	}
	return true
}

// raise rejects every client with a token below the fence.
func (r *resource) raise(fence driver.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writers = max(r.writers, fence)
}

// get and set use the counter without any token.
func (r *resource) get() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counter
}

func (r *resource) set(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counter = n
}
