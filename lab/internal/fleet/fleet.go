// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// Fleet is a number of processes that compete for the same names.
type Fleet struct {
	t      testing.TB
	task   Task
	native Starter
	procs  []*process

	mu       sync.Mutex
	started  int
	holds    []Hold
	failures []string
	held     map[string]int // by process
	changed  chan struct{}  // closed at the next hold
}

// Starter starts a process with the library that the fleet comes from. It records what it holds until stop, which
// returns when the process holds nothing and waits for nothing.
type Starter func(r *Record) (stop func())

// Start starts a fleet of n processes in the phase of the task. Each of them has held locks when it returns. If
// native is nil, a process of phase native is a child.
func Start(t testing.TB, n int, task Task, native Starter) *Fleet {
	t.Helper()
	f := &Fleet{t: t, task: task, native: native, held: map[string]int{}, changed: make(chan struct{})}
	t.Cleanup(f.stopAll)
	for range n {
		f.procs = append(f.procs, f.start(task.Phase))
	}
	for _, p := range f.procs {
		f.await(p)
	}
	return f
}

// Move replaces all processes by others in a phase, one after the other. Each of them has held locks before
// the next one is replaced.
func (f *Fleet) Move(to Phase) {
	f.t.Helper()
	for i := range f.procs {
		f.Replace(i, to)
	}
}

// Replace replaces one process.
func (f *Fleet) Replace(i int, to Phase) {
	f.t.Helper()
	f.stop(f.procs[i])
	f.procs[i] = f.start(to)
	f.await(f.procs[i])
}

// Stop stops all processes and returns what they held and where they failed.
func (f *Fleet) Stop() (holds []Hold, failures []string) {
	f.stopAll()
	return f.Held()
}

func (f *Fleet) stopAll() {
	for _, p := range f.procs {
		f.stop(p)
	}
}

// stop ends a process as an orchestrator does: it finishes what it does.
func (f *Fleet) stop(p *process) {
	if err := p.stop(); err != nil {
		f.t.Errorf("process %s: %v", p.who, err)
	}
}

const (
	// enough is how often a process holds a lock before the next one is replaced.
	enough = 5
	// patience bounds the wait for that.
	patience = 3 * time.Minute
)

// await waits until a process has held locks.
func (f *Fleet) await(p *process) {
	f.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		f.mu.Lock()
		n, changed := f.held[p.who], f.changed
		f.mu.Unlock()
		if n >= enough {
			return
		}
		select {
		case <-changed:
		case <-p.ended:
			f.t.Fatalf("process %s ended: %v", p.who, p.stop())
		case <-late.C:
			f.t.Fatalf("process %s held a lock %d times in %v, want %d", p.who, n, patience, enough)
		}
	}
}

// Held returns what was held so far, and where processes failed.
func (f *Fleet) Held() (holds []Hold, failures []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.holds), slices.Clone(f.failures)
}

// Record is where a process records what it holds.
type Record struct {
	fleet *Fleet
	who   string
}

// Hold records a hold.
func (r *Record) Hold(name string, from, until time.Time) {
	f := r.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holds = append(f.holds, Hold{Who: r.who, Name: name, From: from, Until: until})
	f.held[r.who]++
	close(f.changed)
	f.changed = make(chan struct{})
}

// Failed records an acquisition that failed, or a lock that was lost.
func (r *Record) Failed(text string) {
	f := r.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, r.who+": "+text)
}
