// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/lockfeed"
)

// Sums are those of the watches in one snapshot. They are computed once for all scrapes of it,
// because a prefix may have many locks.
type Sums struct {
	mu   sync.Mutex
	of   *lockfeed.Snapshot
	sums []sum
}

// at returns the sums of the watches, in their order.
func (s *Sums) at(snapshot *lockfeed.Snapshot, watches []Watch) []sum {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of != snapshot {
		s.of, s.sums = snapshot, make([]sum, len(watches))
		for i := range watches {
			s.sums[i] = sumOf(snapshot, &watches[i])
		}
	}
	return s.sums
}

// sum is what the locks of a watch have together.
type sum struct {
	holders, waiters, troubled int
	held, waiting              age
}

// age is that of the oldest when the store was polled.
type age struct {
	some bool
	is   time.Duration
}

func (a *age) note(d time.Duration) { *a = age{true, max(a.is, d)} }

// after is the age some time later: what was held then is taken as held still.
func (a age) after(since time.Duration) float64 {
	if !a.some {
		return 0
	}
	return (a.is + since).Seconds()
}

func sumOf(snapshot *lockfeed.Snapshot, w *Watch) (s sum) {
	locks := snapshot.Locks
	first := sort.Search(len(locks), func(i int) bool { return locks[i].Name >= w.Name })
	for i := first; i < len(locks) && w.has(locks[i].Name); i++ {
		s.add(&locks[i])
		if snapshot.Troubled[locks[i].Name] {
			s.troubled++
		}
	}
	return s
}

func (w *Watch) has(name string) bool {
	return name == w.Name || w.Prefix && strings.HasPrefix(name, w.Name)
}

func (s *sum) add(st *fencelock.Status) {
	for i := range st.Holders {
		if h := &st.Holders[i]; !h.Kept { // a lock that is only reserved has no holder
			s.holders++
			s.held.note(h.Age)
		}
	}
	s.holders += st.MoreHolders
	s.waiters += st.Waiting
	for i := range st.Waiters {
		s.waiting.note(st.Waiters[i].Age)
	}
}
