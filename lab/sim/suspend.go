// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fencelock/fencelock/internal/clock"
)

// Span is a part of a schedule's time.
type Span struct{ At, For time.Duration }

// machine is what a process runs on, and what can be suspended. While it is, its
// clock stands still, no call leaves it, no reply gets to it, and its workers
// do nothing. Timers cannot be stopped in a bubble: those that fire during the suspend
// find that no time has passed.
type machine struct {
	start time.Time

	mu    sync.Mutex
	since time.Time     // when it was suspended; zero: it is awake
	crept time.Duration // of the time since then
	total time.Duration // suspended so far, up to the last resume
	woken chan struct{} // closed at the next resume
}

// creep is what the clock of a suspended machine goes on with every reading. A
// timer that fires just before something is due would otherwise fire without
// end at that place.
const creep = 50 * time.Microsecond

func newMachine() *machine { return &machine{start: time.Now()} }

// clock returns the clock that the client of the process reads.
func (m *machine) clock() *clock.Clock { return clock.NewFake(m.awake, m.suspended) }

// awake returns how long the machine has been running, suspends left out.
func (m *machine) awake() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.since.IsZero() {
		return time.Since(m.start) - m.total
	}
	m.crept = min(m.crept+creep, time.Since(m.since))
	return m.since.Sub(m.start) - m.total + m.crept
}

// suspended returns how long the machine was suspended, as it knows itself.
func (m *machine) suspended() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}

func (m *machine) suspend() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.since.IsZero() {
		m.since, m.crept, m.woken = time.Now(), 0, make(chan struct{})
	}
}

func (m *machine) resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total += time.Since(m.since) - m.crept
	m.since = time.Time{}
	close(m.woken)
}

// wait returns when the machine is awake.
func (m *machine) wait() {
	for {
		m.mu.Lock()
		since, woken := m.since, m.woken
		m.mu.Unlock()
		if since.IsZero() {
			return
		}
		<-woken
	}
}

// suspend suspends the process for a while.
func (p *process) suspend(d time.Duration) {
	p.w.rec.add(Event{Kind: Suspended, Client: p.index, D: d})
	p.machine.suspend()
	time.Sleep(d)
	p.machine.resume()
	p.w.rec.add(Event{Kind: Resumed, Client: p.index})
	p.w.cover.add("suspended")
}

// sleep waits in the time of the process, and reports whether it lives.
func (p *process) sleep(d time.Duration) bool {
	ok := sleep(p.alive, d)
	p.machine.wait()
	return ok
}

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
