// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// recent is what a store knows of the locks that it used a moment ago. All of it is a hint, by which
// the statement is chosen that most likely does.
type recent struct {
	mu    sync.Mutex
	locks map[string]recentLock
}

// recentLock is one that has a row, as far as is known.
type recentLock struct {
	queued time.Time     // when a claim was queued last; zero if none was, or the lock was found free since
	place  int           // where that was
	pace   time.Duration // of a handoff; 0 if no claim was granted yet
	held   time.Time     // when the holders were read last
	by     []driver.Holder
}

const (
	// contendedFor is how long a lock counts as contended after a claim for it was queued.
	contendedFor = 10 * time.Second
	maxRecent    = 10_000
	// holdersFor is how long the holders of a lock that changes hands quickly are good enough for the outcome
	// of a claim that is queued: those that are read then have changed, too, before the outcome is there.
	holdersFor = time.Second
)

// contended reports whether claims wait for the lock, most likely.
func (l recentLock) contended() bool {
	return !l.queued.IsZero() && time.Since(l.queued) < contendedFor
}

// of returns what is known of a lock; false if that is nothing. Of one that is not contended any more only
// that it has a row.
func (r *recent) of(name string) (recentLock, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.locks[name]
	if !l.contended() {
		l = recentLock{}
	}
	return l, ok
}

func (r *recent) setLocked(name string, l recentLock) {
	if r.locks == nil || len(r.locks) >= maxRecent {
		r.locks = map[string]recentLock{}
	}
	r.locks[name] = l
}

// queued notes that a claim was queued behind so many others.
func (r *recent) queued(name string, place int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.locks[name]
	l.queued, l.place = time.Now(), place
	r.setLocked(name, l)
}

// heldBy notes the holders of a lock.
func (r *recent) heldBy(name string, by []driver.Holder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.locks[name]
	l.held, l.by = time.Now(), by
	r.setLocked(name, l)
}

// holders returns the holders of a lock that changes hands quickly, as they were a moment ago; false if there is no such
// knowledge.
func (r *recent) holders(name string) ([]driver.Holder, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.locks[name]
	return l.by, l.contended() && l.pace > 0 && l.pace <= slowPace && len(l.by) > 0 && time.Since(l.held) < holdersFor
}

// granted notes how long a claim has waited behind so many others.
func (r *recent) granted(name string, place int, waited time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.locks[name]; ok {
		l.pace = meanPace(l.pace, waited/time.Duration(place+1))
		r.locks[name] = l
	}
}

// free notes that a lock was found free.
func (r *recent) free(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.locks[name]; !ok || !l.queued.IsZero() {
		r.setLocked(name, recentLock{})
	}
}
