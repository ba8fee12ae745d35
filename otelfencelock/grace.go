// SPDX-License-Identifier: Apache-2.0

package otelfencelock

import (
	"context"
	"sync"
	"time"
)

// grace is the grace period of the store, as far as the client knows. Clients of one process may share an
// instrument, so each adds one at the beginning and takes it away at the end: with a gauge the last of them to
// report would hide the others.
type grace struct {
	mu     sync.Mutex
	until  time.Time
	active bool
}

// inGrace notes that the store grants nothing for that long.
func (m *meters) inGrace(left time.Duration) {
	m.grace.mu.Lock()
	defer m.grace.mu.Unlock()
	if end := time.Now().Add(left); end.After(m.grace.until) {
		m.grace.until = end
	}
	if m.grace.active {
		return
	}
	m.grace.active = true
	m.graces.Add(context.Background(), 1, m.set())
	time.AfterFunc(left, m.endGrace)
}

// endGrace notes the end of the grace period, unless another has begun meanwhile.
func (m *meters) endGrace() {
	m.grace.mu.Lock()
	defer m.grace.mu.Unlock()
	if left := time.Until(m.grace.until); left > 0 {
		time.AfterFunc(left, m.endGrace)
		return
	}
	m.grace.active = false
	m.graces.Add(context.Background(), -1, m.set())
}
