// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/both"
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

// Hold is a time in which a process believed to hold a lock, by the clock of the machine that all processes share.
type Hold struct {
	Who, Name string
	// Reads is set if other readers may hold the lock at the same time.
	Reads       bool
	From, Until time.Time
}

// Overlaps returns the pairs of holds that must not be at the same time.
func Overlaps(all []Hold) (found [][2]Hold) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(x, y Hold) int { return cmp.Or(strings.Compare(x.Name, y.Name), x.From.Compare(y.From)) })
	for i, x := range all {
		for _, y := range all[i+1:] {
			if y.Name != x.Name || !y.From.Before(x.Until) {
				break
			}
			if !x.Reads || !y.Reads {
				found = append(found, [2]Hold{x, y})
			}
		}
	}
	return found
}

// Phase is which locks a process takes, and how.
type Phase string

// The phases. Native is the lock of phase old, taken by the library that the fleet comes from.
const (
	Native Phase = "native"
	Old    Phase = "old"
	Both   Phase = "both"
	New    Phase = "new"
	Grace  Phase = "grace" // as New, and it asks for grace
)

// openPhase opens the store of a phase. All three are settings of the deployment.
func openPhase(ctx context.Context, phase Phase, oldURL, newURL string) (driver.OpenedStore, error) {
	switch phase {
	case "old":
		return fencelock.OpenStore(ctx, oldURL)
	case "new":
		return fencelock.OpenStore(ctx, newURL)
	case "both":
		old, err := fencelock.OpenStore(ctx, oldURL)
		if err != nil {
			return nil, err
		}
		next, err := fencelock.OpenStore(ctx, newURL)
		if err != nil {
			return nil, errors.Join(err, old.Close())
		}
		store, err := both.New(both.Stores{Old: old, New: next}, nil)
		if err != nil {
			return nil, errors.Join(err, next.Close(), old.Close())
		}
		return stores{store, old, next}, nil
	}
	return nil, fmt.Errorf("the phase is %q; use old, both or new", phase)
}

// stores are the two stores of phase both as one, which has to be closed.
type stores struct {
	*both.Store
	old, next driver.OpenedStore
}

// Close closes the two stores, after the client.
func (s stores) Close() error { return errors.Join(s.next.Close(), s.old.Close()) }
