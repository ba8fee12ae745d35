// SPDX-License-Identifier: Apache-2.0

package lockfeed

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
)

// Snapshot is the result of one poll. It is shared by all viewers and never changes.
type Snapshot struct {
	// Revision counts the successful polls of this process.
	Revision uint64
	// At is when the listing had been read.
	At time.Time
	// Locks are by name.
	Locks []fencelock.Status
	// Troubled are the names of locks with a holder that does not renew.
	Troubled map[string]bool
	sorted   map[lockview.Order]func() []fencelock.Status
	counted  sync.Once
	counts   Counts
}

func newSnapshot(revision uint64, at time.Time, locks []fencelock.Status, renewals *lockview.Renewals) *Snapshot {
	s := &Snapshot{Revision: revision, At: at, Locks: locks, Troubled: map[string]bool{}, sorted: map[lockview.Order]func() []fencelock.Status{}}
	renewals.Note(locks)
	for i := range locks {
		if renewals.Troubled(&locks[i]) {
			s.Troubled[locks[i].Name] = true
		}
	}
	for _, order := range lockview.Orders {
		// Sorted when the first viewer asks for it, and then once for all.
		s.sorted[order] = sync.OnceValue(func() []fencelock.Status {
			all := slices.Clone(locks)
			lockview.Sort(all, order)
			return all
		})
	}
	return s
}

// Lock finds a lock by name; nil if the store does not list it.
func (s *Snapshot) Lock(name string) *fencelock.Status {
	i, found := slices.BinarySearchFunc(s.Locks, name, func(st fencelock.Status, name string) int { return strings.Compare(st.Name, name) })
	if !found {
		return nil
	}
	return &s.Locks[i]
}

// Query is which part of a list is wanted.
type Query struct {
	lockview.Selection
	Order lockview.Order
	// Sees reports whether the viewer may see a lock.
	Sees func(name string) bool
	// After skips names up to this one; it is for the order by name.
	After         string
	Offset, Limit int
}

// Counts are the sums of a list.
type Counts struct {
	Total     int `json:"total"`
	Held      int `json:"held"`
	Contended int `json:"contended"`
	Waiting   int `json:"waiting"`
	Troubled  int `json:"not_renewed"`
}

// Page returns a part of the locks that are wanted, and counts all of them.
func (s *Snapshot) Page(q *Query) (page []*fencelock.Status, counts Counts) {
	all := s.sorted[q.Order]()
	skip := q.Offset
	for i := range all {
		st := &all[i]
		if !q.Sees(st.Name) || !q.Wants(st) {
			continue
		}
		counts.add(st, s.Troubled[st.Name])
		switch {
		case q.After != "" && st.Name <= q.After:
		case skip > 0:
			skip--
		case len(page) < q.Limit:
			page = append(page, st)
		}
	}
	return page, counts
}

// Counts are the sums of all locks, computed once.
func (s *Snapshot) Counts() Counts {
	s.counted.Do(func() {
		for i := range s.Locks {
			s.counts.add(&s.Locks[i], s.Troubled[s.Locks[i].Name])
		}
	})
	return s.counts
}

func (c *Counts) add(st *fencelock.Status, troubled bool) {
	c.Total++
	c.Waiting += st.Waiting
	if len(st.Holders) > 0 && !st.Holders[0].Kept { // a lock that is only reserved is not held
		c.Held++
	}
	if st.Waiting > 0 {
		c.Contended++
	}
	if troubled {
		c.Troubled++
	}
}

// Visible returns the locks that a viewer may see, by name.
func (s *Snapshot) Visible(sees func(name string) bool) []fencelock.Status {
	var locks []fencelock.Status
	for i := range s.Locks {
		if sees(s.Locks[i].Name) {
			locks = append(locks, s.Locks[i])
		}
	}
	return locks
}
