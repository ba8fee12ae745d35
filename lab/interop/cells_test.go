// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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

// cells are all of them, for an RLock and an RFencedLock.
var cells = []cell{
	{"excluded", "Java", "Go", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", s.kind, s.name, -1)
		s.busy(locks)
		java.Must("a", "UNLOCK", s.kind, s.name)
		s.unlock(s.lock(locks))
		s.free()
	}},
	{"excluded", "Go", "Java", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		l := s.lock(locks)
		if got := java.Do("a", "TRY", s.kind, s.name, 0, -1); got.Word != "no" {
			s.Fatalf("tryLock beside a Go holder: %v", got)
		}
		s.unlock(l)
		java.Must("a", "TRY", s.kind, s.name, 0, -1)
		java.Must("a", "UNLOCK", s.kind, s.name)
		s.free()
	}},
	{"woken", "Java", "Go", func(s *scene) {
		java, w := s.java(), s.waiter(long)
		java.Must("a", "LOCK", s.kind, s.name, long.Milliseconds())
		waiting := w.locking(s, s.name, w.Mutex(s.name).Lock)
		java.Must("a", "UNLOCK", s.kind, s.name)
		s.unlock(s.granted(waiting).lease)
	}},
	{"woken", "Go", "Java", func(s *scene) {
		java, locks := s.java(), s.client(long)
		l := s.lock(locks)
		waiting := java.Ask("a", "LOCK", s.kind, s.name, -1)
		s.waits(java, "a")
		s.unlock(l)
		must.OK(s, await(s, "lock() in Java", waiting).Err())
		java.Must("a", "UNLOCK", s.kind, s.name)
	}},
	{"holder killed", "Java", "Go", func(s *scene) {
		java, locks := s.mortal(), s.client(ttl)
		java.Must("a", "LOCK", s.kind, s.name, -1)
		waiting := s.locking(locks)
		s.listened(1)
		java.Kill()
		s.unlock(s.granted(waiting).lease)
	}},
	{"holder killed", "Go", "Java", func(s *scene) {
		java, g := s.java(), s.mortalGo(ttl)
		g.Must("a", "LOCK", "lock", s.name)
		waiting := java.Ask("a", "LOCK", s.kind, s.name, -1)
		s.waits(java, "a")
		g.Kill()
		must.OK(s, await(s, "lock() in Java", waiting).Err())
		java.Must("a", "UNLOCK", s.kind, s.name)
	}},
	{"waiter killed", "Java", "Go", func(s *scene) {
		java, g := s.java(), s.mortalGo(ttl)
		java.Must("a", "LOCK", s.kind, s.name, -1)
		g.Ask("a", "LOCK", "lock", s.name)
		s.listened(1)
		g.Kill()
		s.listened(0)
		java.Must("a", "UNLOCK", s.kind, s.name)
		s.free()
	}},
	{"waiter killed", "Go", "Java", func(s *scene) {
		java, locks := s.mortal(), s.client(ttl)
		l := s.lock(locks)
		java.Ask("a", "LOCK", s.kind, s.name, -1)
		s.listened(1)
		java.Kill()
		s.listened(0)
		s.unlock(l)
		s.free()
	}},
	{"holder paused", "Java", "Go", func(s *scene) {
		java, locks := s.mortal(), s.client(ttl)
		java.Must("a", "LOCK", s.kind, s.name, -1)
		resume := java.Pause()
		l := s.lock(locks)
		resume()
		if got := java.Do("a", "UNLOCK", s.kind, s.name); !strings.Contains(got.Value, "IllegalMonitorState") {
			s.Errorf("unlock of a lock that was lost in a pause: %v", got)
		}
		must.OK(s, l.Err())
		s.unlock(l)
		s.free()
	}},
	{"holder paused", "Go", "Java", func(s *scene) {
		java, g := s.java(), s.mortalGo(ttl)
		g.Must("a", "LOCK", "lock", s.name)
		resume := g.Pause()
		java.Must("a", "LOCK", s.kind, s.name, -1)
		resume()
		lostInAPause(s, g, "a", "lock", s.name)
		java.Must("a", "HELD", s.kind, s.name)
		java.Must("a", "UNLOCK", s.kind, s.name)
	}},
	{"waiter paused", "Java", "Go", func(s *scene) {
		java, g := s.java(), s.mortalGo(long)
		java.Must("a", "LOCK", s.kind, s.name, long.Milliseconds())
		waiting := g.Ask("a", "LOCK", "lock", s.name)
		s.listened(1)
		resume := g.Pause()
		java.Must("a", "UNLOCK", s.kind, s.name)
		java.Must("b", "TRY", s.kind, s.name, 0, long.Milliseconds()) // it keeps no other from the lock
		resume()
		java.Must("b", "UNLOCK", s.kind, s.name)
		must.OK(s, await(s, "Lock in Go after a pause", waiting).Err())
		g.Must("a", "UNLOCK", "lock", s.name)
		s.free()
	}},
	{"waiter paused", "Go", "Java", func(s *scene) {
		java, locks := s.mortal(), s.client(long)
		l := s.lock(locks)
		waiting := java.Ask("a", "LOCK", s.kind, s.name, -1)
		s.waits(java, "a")
		resume := java.Pause()
		s.unlock(l)
		l = s.lock(locks) // it keeps no other from the lock
		resume()
		s.unlock(l)
		must.OK(s, await(s, "lock() in Java after a pause", waiting).Err())
		java.Must("a", "UNLOCK", s.kind, s.name)
		s.free()
	}},
	{"forced open", "Go", "Java", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		l := s.lock(locks)
		waiting := java.Ask("a", "LOCK", s.kind, s.name, -1)
		s.waits(java, "a")
		java.Must("b", "FORCE", s.kind, s.name)
		must.OK(s, await(s, "lock() in Java", waiting).Err())
		await(s, "the notice of the Go holder", l.Context().Done())
		if err := context.Cause(l.Context()); !errors.Is(err, fencelock.ErrLost) {
			s.Errorf("the lease ended with %v", err)
		}
		java.Must("a", "HELD", s.kind, s.name)
		java.Must("a", "UNLOCK", s.kind, s.name)
	}},
	{"forced open, then unlocked", "Go", "Java", func(s *scene) {
		java, locks := s.java(), s.client(long)
		l := s.lock(locks)
		java.Must("b", "FORCE", s.kind, s.name)
		java.Must("a", "LOCK", s.kind, s.name, -1)
		if err := l.Unlock(s.Context()); !errors.Is(err, fencelock.ErrLost) {
			s.Errorf("Unlock of a lock that was forced open: %v", err)
		}
		java.Must("a", "HELD", s.kind, s.name)
		java.Must("a", "UNLOCK", s.kind, s.name)
	}},
	{"broken by an operator", "Go", "Java", func(s *scene) {
		java, locks := s.java(), s.client(long)
		l := s.lock(locks)
		waiting := java.Ask("a", "LOCK", s.kind, s.name, -1)
		s.waits(java, "a")
		_, err := s.client(ttl).Break(s.Context(), s.name, l.Token())
		must.OK(s, err)
		must.OK(s, await(s, "lock() in Java", waiting).Err())
		java.Must("a", "UNLOCK", s.kind, s.name)
	}},
	{"renewed", "Java", "Go", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", s.kind, s.name, -1)
		ctx, cancel := context.WithTimeout(s.Context(), watchdog+watchdog/2)
		defer cancel()
		if _, err := locks.Mutex(s.name).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			s.Fatalf("Lock beside a Java holder that renews: %v", err)
		}
		java.Must("a", "UNLOCK", s.kind, s.name)
		s.free()
	}},
	{"renewed", "Go", "Java", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		l := s.lock(locks)
		if got := java.Do("a", "TRY", s.kind, s.name, (ttl + ttl/2).Milliseconds(), -1); got.Word != "no" {
			s.Fatalf("tryLock beside a Go holder that renews: %v", got)
		}
		must.OK(s, l.Err())
		s.unlock(l)
		s.free()
	}},
	{"re-entered", "Java", "Go", func(s *scene) {
		java, w := s.java(), s.waiter(long)
		for range 3 {
			java.Must("a", "LOCK", s.kind, s.name, long.Milliseconds())
		}
		waiting := w.locking(s, s.name, w.Mutex(s.name).Lock)
		for left := 2; left >= 0; left-- {
			s.busy(s.client(ttl))
			if java.Must("a", "UNLOCK", s.kind, s.name); left > 0 {
				if got := java.Must("a", "COUNT", s.kind, s.name).Value; got != []string{"0", "1", "2"}[left] {
					s.Errorf("the hold count is %s, want %d", got, left)
				}
			}
		}
		s.unlock(s.granted(waiting).lease)
	}},
	{"waiter gives up", "Go", "Java", func(s *scene) {
		java, locks := s.java(), s.client(long)
		l := s.lock(locks)
		waiting := java.Ask("a", "LOCK", s.kind, s.name, -1)
		s.waits(java, "a")
		java.Must("a", "INTERRUPT", s.kind, s.name)
		if got := await(s, "the interrupted lock()", waiting); got.Word != "err" {
			s.Errorf("the interrupted lock() answered %v", got)
		}
		s.unlock(l)
		s.free()
	}},
}

// tokens of Go and of RFencedLock are one sequence.
func tokens(s *scene) {
	java, locks := s.java(), s.client(ttl)
	var last int64
	rise := func(who string, token int64) {
		s.Helper()
		if token <= last {
			s.Errorf("%s has token %d after %d", who, token, last)
		}
		last = token
	}
	for range 3 {
		for range 2 {
			rise("Java", number(s, java.Must("a", "TOKEN", "fenced", s.name).Value))
			java.Must("a", "UNLOCK", "fenced", s.name)
		}
		for range 2 {
			l := s.lock(locks)
			rise("Go", int64(l.Token()))
			s.unlock(l)
			rise("Go's handoffs", int64(l.Token())+driver.TokenStep-1)
		}
	}
}

// format is a kind of lock in Java that Go shares, with what must be so.
type format struct {
	title string
	kind  string
	// since is the first version that has it.
	since string
	cells []cell
}

// sameCells compare what both sides write.
var sameCells = []cell{{"same on the wire", "both", "both", sameOnTheWire}, {"same in the store", "both", "both", sameInStore}}

var formats = []format{
	{"RLock", "lock", "", slices.Concat(cells, faults, sameCells)},
	{"RFencedLock", "fenced", "3.19.0", slices.Concat(cells, faults, []cell{{"tokens rise", "both", "both", tokens}}, sameCells)},
	{"RReadWriteLock", "readwrite", "", readWrite},
}

// slow are the cells that wait for the end of a lease or start further processes. A short run leaves
// them out.
var slow = []string{"holder killed", "waiter killed", "holder paused", "waiter paused", "renewed", "reply", "server", "same", "reader killed", "writer killed"}

// isSlow reports whether a short run leaves the cell out.
func (c cell) isSlow() bool {
	return slices.ContainsFunc(slow, func(prefix string) bool { return strings.HasPrefix(c.what, prefix) })
}

// onACluster are the rows of TestRedissonOnACluster.
var onACluster = []row{{"RLock on a cluster", "woken", "Go", "Java"}, {"RLock on a cluster", "woken", "Java", "Go"}}

// in reports whether a version has the format.
func (f format) in(version string) bool { return compareVersions(version, f.since) >= 0 }

// everyCell returns the rows of the page in order.
func everyCell() (all []row) {
	for _, f := range formats {
		for _, c := range f.cells {
			all = append(all, row{f.title, c.what, c.holder, c.waiter})
		}
	}
	return append(all, onACluster...)
}

// TestRedisson plays all cells.
func TestRedisson(t *testing.T) {
	for _, version := range chosen() {
		t.Run(version, func(t *testing.T) {
			stage := newStage(t, version)
			for _, f := range formats {
				t.Run(f.title, func(t *testing.T) {
					for _, c := range f.cells {
						r := row{f.title, c.what, c.holder, c.waiter}
						if !f.in(version) {
							results.note(r, version, impossible)
							continue
						}
						if !*all && c.isSlow() {
							continue
						}
						t.Run(fmt.Sprintf("%s: holder %s, waiter %s", c.what, c.holder, c.waiter), func(t *testing.T) {
							t.Parallel()
							results.noteTest(t, r, version)
							stage.play(t, f.kind, c.do)
						})
					}
				})
			}
		})
	}
}
