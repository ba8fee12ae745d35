// SPDX-License-Identifier: Apache-2.0

package quorum

import "sync"

// behind counts the calls that go on behind those who made them.
type behind struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n is 0; nil if nobody waits
}

// run runs f in a goroutine of its own.
func (b *behind) run(f func()) {
	b.mu.Lock()
	b.n++
	b.mu.Unlock()
	go func() {
		defer b.done()
		f()
	}()
}

func (b *behind) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// wait returns when nothing is under way. It is no WaitGroup, because calls begin
// while somebody waits.
func (b *behind) wait() {
	b.mu.Lock()
	if b.n == 0 {
		b.mu.Unlock()
		return
	}
	if b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	<-idle
}

// Wait returns when no call to a node is under way any more. Calls go on after
// those who made them have their answer, each for NodeTimeout at most. Call it when
// all clients of the store are closed: before closing the nodes, and before a test
// in a synctest bubble returns.
func (s *Store) Wait() { s.behind.wait() }
