// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"slices"
	"sync"
)

// bench has the waiters of all locks, so that a fault can make them give up at the worst
// moment: just before the lock is passed to them. Timers alone hardly ever do that,
// because the goroutine that wakes first runs first.
type bench struct {
	mu      sync.Mutex
	waiting []*seat
}

type seat struct {
	name   string
	client int
	cancel context.CancelFunc
}

func (b *bench) sit(s *seat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, s)
}

func (b *bench) rise(s *seat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, s); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
}

// jolt makes the first who waits for the name give up, of the same client if
// there is one, and reports whether there was one.
func (b *bench) jolt(name string, client int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	same := func(s *seat) bool { return s.name == name && s.client == client }
	i := slices.IndexFunc(b.waiting, same)
	if i < 0 {
		i = slices.IndexFunc(b.waiting, func(s *seat) bool { return s.name == name })
	}
	if i < 0 {
		return false
	}
	b.waiting[i].cancel()
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return true
}
