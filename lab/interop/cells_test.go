// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

// cell is one thing that must be so between a holder and a waiter.
type cell struct {
	what           string
	holder, waiter string
	do             func(*scene)
}

// The cells that several formats have. The other library is called Java here; titled changes that.
var (
	excluded = []cell{
		{"excluded", "Java", "Go", func(s *scene) {
			other, locks := s.other(), s.client(s.ttl)
			s.takes(other)
			s.busy(locks)
			must.OK(s, other.unlock())
			s.free(s)
			s.unlock(s.lock(locks))
			s.free(s)
		}},
		{"excluded", "Go", "Java", func(s *scene) {
			other, l := s.other(), s.lock(s.client(s.ttl))
			takes := s.barred(s, other)
			must.OK(s, l.Err())
			s.unlock(l)
			takes()
			must.OK(s, other.unlock())
			s.free(s)
		}},
	}
	woken = []cell{
		{"woken", "Java", "Go", func(s *scene) {
			other, locks := s.other(), s.client(s.long)
			s.takes(other)
			waiting := s.locking(locks)
			s.watched(1)
			begin := time.Now()
			must.OK(s, other.unlock())
			s.woken(waiting, begin)
		}},
		{"woken", "Go", "Java", func(s *scene) {
			other, l := s.other(), s.lock(s.client(s.long))
			waiting := s.asking(other)
			s.watched(1)
			s.unlock(l)
			s.has(waiting)
			must.OK(s, other.unlock())
		}},
	}
	holderKilled = []cell{
		{"holder killed", "Java", "Go", func(s *scene) {
			other, locks := s.mortal(), s.client(s.ttl)
			s.takes(other)
			waiting := s.locking(locks)
			other.Kill()
			s.leaves(waiting)
		}},
		{"holder killed", "Go", "Java", func(s *scene) {
			other, g := s.other(), s.mortalGo(s.ttl)
			g.Must("a", "LOCK", "lock", s.name)
			waiting := s.asking(other)
			g.Kill()
			s.has(waiting)
			must.OK(s, other.unlock())
		}},
	}
	waiterKilled = []cell{
		{"waiter killed", "Java", "Go", func(s *scene) {
			first, second, g := s.other(), s.other(), s.mortalGo(s.ttl)
			s.takes(first)
			s.asked(g)
			waiting := s.asking(second)
			g.Kill()
			must.OK(s, first.unlock())
			s.has(waiting) // in a queue, when the lease of the dead waiter has ended
			must.OK(s, second.unlock())
			s.free(s)
		}},
		{"waiter killed", "Go", "Java", func(s *scene) {
			other, l := s.mortal(), s.lock(s.client(s.ttl))
			s.asking(other)
			waiting := s.locking(s.client(s.ttl))
			other.Kill()
			s.unlock(l)
			s.leaves(waiting)
			s.free(s)
		}},
	}
	holderPaused = []cell{
		{"holder paused", "Java", "Go", func(s *scene) {
			other, locks := s.mortal(), s.client(s.ttl)
			s.takes(other)
			stale := s.fence(s)
			waiting := s.locking(locks)
			resume := other.Pause()
			l := granted(s, waiting).lease
			resume()
			if stale >= l.Token() {
				s.Errorf("its token %v is not below %v: a guard would not reject it", stale, l.Token())
			}
			s.lost(s, other)
			must.OK(s, l.Err())
			s.queued(1)
			s.unlock(l)
			s.free(s)
		}},
		{"holder paused", "Go", "Java", func(s *scene) {
			other, g := s.other(), s.mortalGo(s.ttl)
			g.Must("a", "LOCK", "lock", s.name)
			resume := g.Pause()
			s.takes(other)
			resume()
			lostInAPause(s, g, "a", "lock", s.name)
			s.held(s, other)
			must.OK(s, other.unlock())
		}},
	}
	waiterPaused = []cell{
		{"waiter paused", "Java", "Go", func(s *scene) {
			first, second, g := s.other(), s.other(), s.mortalGo(s.long)
			s.takes(first)
			waiting := s.asked(g)
			resume := g.Pause()
			must.OK(s, first.unlock())
			s.takes(second) // in a queue, when the lease of the paused waiter has ended; else at once
			resume()
			s.held(s, second)
			must.OK(s, second.unlock())
			must.OK(s, await(s, "Lock in Go after a pause", waiting).Err())
			g.Must("a", "UNLOCK", "lock", s.name)
			s.free(s)
		}},
		{"waiter paused", "Go", "Java", func(s *scene) {
			other, l := s.mortal(), s.lock(s.client(s.long))
			waiting := s.asking(other)
			resume := other.Pause()
			s.unlock(l)
			l = s.lock(s.client(s.long)) // in a queue, when the lease of the paused waiter has ended; else at once
			resume()
			must.OK(s, l.Err())
			s.unlock(l)
			if !s.queues { // in a queue its claim has gone
				s.has(waiting)
				must.OK(s, other.unlock())
				s.free(s)
			}
		}},
	}
	waiterGivesUp = []cell{
		{"waiter gives up", "Go", "Java", func(s *scene) {
			other, l := s.other(), s.lock(s.client(s.long))
			s.gaveUp(s, other)
			s.queued(1) // at once, or when the lease has ended
			s.unlock(l)
			s.free(s)
		}},
		{"waiter gives up", "Java", "Go", func(s *scene) {
			other, locks := s.other(), s.client(s.ttl)
			s.takes(other)
			ctx, cancel := context.WithCancel(s.Context())
			ended := make(chan error, 1)
			go func() { _, err := locks.Mutex(s.name).Lock(ctx); ended <- err }()
			s.queued(2)
			cancel()
			if err := await(s, "the end of the wait", ended); !errors.Is(err, context.Canceled) {
				s.Fatalf("the canceled wait ended with %v", err)
			}
			s.queued(1)
			must.OK(s, other.unlock())
			s.free(s)
		}},
	}
	brokenByOperator = []cell{
		{"taken away by an operator", "Go", "Java", func(s *scene) {
			other, l := s.other(), s.lock(s.client(s.long))
			waiting := s.asking(other)
			_, err := s.client(s.ttl).ForceUnlock(s.Context(), s.name, l.Token())
			must.OK(s, err)
			s.has(waiting)
			if s.queues { // else it notices when it renews
				s.noticed(l, fencelock.ErrLost)
			}
			must.OK(s, other.unlock())
		}},
		{"taken away by an operator", "Java", "Go", func(s *scene) {
			other, locks := s.other(), s.client(s.long)
			s.takes(other)
			waiting := s.locking(locks)
			st, err := locks.Inspect(s.Context(), s.name)
			if err != nil || len(st.Holders) != 1 || st.Waiting != 1 {
				s.Fatalf("Inspect shows %+v, %v", st, err)
			}
			fence, err := locks.ForceUnlock(s.Context(), s.name, st.Holders[0].Token)
			must.OK(s, err)
			l := granted(s, waiting).lease
			if fence <= st.Holders[0].Token || fence >= l.Token() {
				s.Errorf("the fence between %v and %v is %v", st.Holders[0].Token, l.Token(), fence)
			}
			s.unlock(l)
		}},
	}
	inOrder   = []cell{{"in order of arrival", "both", "both", inOrderOfArrival}}
	restarted = []cell{
		{"server restarts with its data", "Java", "Go", func(s *scene) {
			s = s.apart()
			other, locks := s.other(), s.client(s.long)
			s.takes(other)
			waiting := s.locking(locks)
			s.restart(s)
			s.queued(2)
			must.OK(s, other.unlock())
			s.leaves(waiting)
		}},
		{"server restarts with its data", "Go", "Java", func(s *scene) {
			s = s.apart()
			other, l := s.other(), s.lock(s.client(s.long))
			waiting := s.asking(other)
			s.restart(s)
			s.queued(2)
			must.OK(s, l.Err())
			s.unlock(l)
			if err := await(s, "the lock of the other", waiting).Err(); err != nil && s.waitsEnd {
				s.Logf("its wait ended with the server: %v", err)
				other.Kill()
			} else {
				must.OK(s, err)
				must.OK(s, other.unlock())
			}
			s.unlock(s.lock(s.client(s.long)))
		}},
	}
)

// deleted are the cells in which the lock is taken from its holder behind the back of fencelock, as a format calls that.
func deleted(what string) []cell {
	return []cell{
		{what, "Java", "Go", func(s *scene) {
			other, locks := s.other(), s.client(s.long)
			s.takes(other)
			waiting := s.locking(locks)
			begin := time.Now()
			s.deleteFirst(s)
			s.woken(waiting, begin)
		}},
		{what, "Go", "Java", func(s *scene) {
			other, l := s.other(), s.lock(s.client(s.ttl))
			waiting := s.asking(other)
			s.deleteFirst(s)
			s.has(waiting)
			s.noticed(l, fencelock.LossForceUnlock)
			s.held(s, other)
			must.OK(s, other.unlock())
		}},
		{what + ", then unlocked", "Go", "Java", func(s *scene) {
			other, l := s.other(), s.lock(s.client(s.long))
			waiting := s.asking(other)
			s.deleteFirst(s)
			s.has(waiting)
			if err := l.Unlock(s.Context()); !errors.Is(err, fencelock.ErrLost) {
				s.Errorf("Unlock of a lock that was lost: %v", err)
			}
			s.held(s, other)
			must.OK(s, other.unlock())
		}},
	}
}

// inOrderOfArrival: both sides are granted the lock in the order of the queue, and tokens rise over both.
func inOrderOfArrival(s *scene) {
	holder := s.lock(s.client(s.long))
	last := holder.Token()
	var waits []func() driver.Token
	for range 3 {
		waiting := s.locking(s.client(s.long))
		waits = append(waits, func() driver.Token {
			l := granted(s, waiting).lease
			defer s.unlock(l)
			return l.Token()
		})
		other := s.other()
		asked := s.asking(other)
		waits = append(waits, func() driver.Token {
			s.has(asked)
			defer func() { must.OK(s, other.unlock()) }()
			return s.fence(s)
		})
	}
	s.unlock(holder)
	for i, wait := range waits {
		s.queued(len(waits) - i)
		token := wait()
		if token <= last {
			s.Errorf("claim %d has token %v after %v", i, token, last)
		}
		last = token
	}
}

// titled returns cells with other names for the two sides.
func titled(cells []cell, java, fencelock string) []cell {
	cells = slices.Clone(cells)
	name := map[string]string{"Java": java, "Go": fencelock, "both": "both"}
	for i, c := range cells {
		cells[i].holder, cells[i].waiter = name[c.holder], name[c.waiter]
	}
	return cells
}

// table is a kind of lock that Go shares, with what must be so.
type table struct {
	title string
	kind  string
	// since is the first version that has it.
	since string
	cells []cell
}

// in reports whether a version has the lock.
func (f table) in(version string) bool {
	return f.since == "" || compareVersions(version, f.since) >= 0
}

// rowsOf returns the rows of the page in order.
func rowsOf(tables []table) (all []row) {
	for _, f := range tables {
		for _, c := range f.cells {
			all = append(all, row{f.title, c.what, c.holder, c.waiter})
		}
	}
	return all
}

// playAll plays the cells of a table. A short run leaves the slow ones out, whose names begin with one of the words: they wait for the
// end of a lease or start further processes.
func (s *stage) playAll(t *testing.T, f table, slow []string) {
	for _, c := range f.cells {
		r := row{f.title, c.what, c.holder, c.waiter}
		if !f.in(s.version) {
			results.note(r, s.version, impossible)
			continue
		}
		if !*all && slices.ContainsFunc(slow, func(word string) bool { return strings.HasPrefix(c.what, word) }) {
			continue
		}
		t.Run(fmt.Sprintf("%s: holder %s, waiter %s", c.what, c.holder, c.waiter), func(t *testing.T) {
			t.Parallel()
			results.noteTest(t, r, s.version)
			s.play(t, f.kind, c.do)
		})
	}
}

// playTables plays several.
func (s *stage) playTables(t *testing.T, tables []table, slow []string) {
	for _, f := range tables {
		t.Run(f.title, func(t *testing.T) { s.playAll(t, f, slow) })
	}
}
