// SPDX-License-Identifier: Apache-2.0

package faultstore

import "sync"

// lateCalls are the calls that go on without their callers. It is not a
// sync.WaitGroup because a late call may begin while another goroutine waits.
type lateCalls struct {
	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when running falls to 0
}

// run runs f in the background.
func (l *lateCalls) run(f func()) {
	l.mu.Lock()
	if l.running == 0 {
		l.idle = make(chan struct{})
	}
	l.running++
	l.mu.Unlock()
	go func() {
		defer l.done()
		f()
	}()
}

func (l *lateCalls) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	if l.running == 0 {
		close(l.idle)
	}
}

// wait returns when no call is under way.
func (l *lateCalls) wait() {
	l.mu.Lock()
	running, idle := l.running, l.idle
	l.mu.Unlock()
	if running > 0 {
		<-idle
	}
}
