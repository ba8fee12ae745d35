// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
)

// treeCell is one thing that must be so between a holder and a waiter.
type treeCell struct {
	what           string
	holder, waiter string
	do             func(*treeScene)
}

// excluding are the cells that every exclusive kind has: mutex, latch and select.
var excluding = []treeCell{
	{"excluded", "Java", "Go", func(s *treeScene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", s.kind, s.path)
		s.busy(locks)
		java.Must("a", "UNLOCK", s.kind, s.path)
		s.queued(0) // a LeaderLatch leaves in the background
		s.unlock(s.lock(locks))
		s.free()
	}},
	{"excluded", "Go", "Java", func(s *treeScene) {
		java, locks := s.java(), s.client(ttl)
		l := s.lock(locks)
		s.excludes(java)
		s.unlock(l)
		s.queued(0)
		java.Must("a", "LOCK", s.kind, s.path)
		java.Must("a", "UNLOCK", s.kind, s.path)
		s.queued(0)
	}},
	{"woken", "Java", "Go", func(s *treeScene) {
		java, locks := s.java(), s.client(treeLong)
		java.Must("a", "LOCK", s.kind, s.path)
		waiting := s.locking(locks)
		s.queued(2)
		s.watched(s.first(), 1)
		begin := time.Now()
		java.Must("a", "UNLOCK", s.kind, s.path)
		s.unlock(s.woken(waiting, begin))
	}},
	{"woken", "Go", "Java", func(s *treeScene) {
		java, locks := s.java(), s.client(treeLong)
		l := s.lock(locks)
		waiting := java.Ask("a", "LOCK", s.kind, s.path)
		s.queued(2)
		s.watched(s.first(), 1)
		s.unlock(l)
		must.OK(s, await(s, "acquire() in Java", waiting).Err())
		java.Must("a", "UNLOCK", s.kind, s.path)
	}},
	{"holder killed", "Java", "Go", func(s *treeScene) {
		java, locks := s.mortal(), s.client(ttl)
		java.Must("a", "LOCK", s.kind, s.path)
		waiting := s.locking(locks)
		s.queued(2)
		java.Kill()
		s.unlock(s.granted(waiting).lease)
	}},
	{"holder killed", "Go", "Java", func(s *treeScene) {
		java, g := s.java(), s.mortalGo()
		g.Must("a", "LOCK", "lock", s.name())
		waiting := java.Ask("a", "LOCK", s.kind, s.path)
		s.queued(2)
		g.Kill()
		must.OK(s, await(s, "acquire() in Java", waiting).Err())
		java.Must("a", "UNLOCK", s.kind, s.path)
	}},
	{"node deleted by hand", "Java", "Go", func(s *treeScene) {
		java, locks := s.java(), s.client(treeLong)
		java.Must("a", "LOCK", s.kind, s.path)
		waiting := s.locking(locks)
		s.queued(2)
		begin := time.Now()
		s.remove(s.first())
		s.unlock(s.woken(waiting, begin))
	}},
	{"node deleted by hand", "Go", "Java", func(s *treeScene) {
		java, locks := s.java(), s.client(ttl)
		l := s.lock(locks)
		waiting := java.Ask("a", "LOCK", s.kind, s.path)
		s.queued(2)
		s.remove(s.first())
		must.OK(s, await(s, "acquire() in Java", waiting).Err())
		await(s, "the notice of the Go holder", l.Context().Done())
		if err := context.Cause(l.Context()); !errors.Is(err, fencelock.ErrBroken) {
			s.Errorf("the lease ended with %v", err)
		}
		java.Must("a", "HELD", s.kind, s.path)
		java.Must("a", "UNLOCK", s.kind, s.path)
	}},
	{"broken by an operator", "Go", "Java", func(s *treeScene) {
		java, locks := s.java(), s.client(treeLong)
		l := s.lock(locks)
		waiting := java.Ask("a", "LOCK", s.kind, s.path)
		s.queued(2)
		_, err := s.client(ttl).Break(s.Context(), s.name(), l.Token())
		must.OK(s, err)
		must.OK(s, await(s, "acquire() in Java", waiting).Err())
		java.Must("a", "UNLOCK", s.kind, s.path)
	}},
	{"broken by an operator", "Java", "Go", func(s *treeScene) {
		java, locks := s.java(), s.client(treeLong)
		java.Must("a", "LOCK", s.kind, s.path)
		waiting := s.locking(locks)
		s.queued(2)
		st, err := locks.Inspect(s.Context(), s.name())
		if err != nil || len(st.Holders) != 1 || st.Waiting != 1 {
			s.Fatalf("Inspect shows %+v, %v", st, err)
		}
		fence, err := locks.Break(s.Context(), s.name(), st.Holders[0].Token)
		must.OK(s, err)
		l := s.granted(waiting).lease
		if fence <= st.Holders[0].Token || fence >= l.Token() {
			s.Errorf("the fence between %v and %v is %v", st.Holders[0].Token, l.Token(), fence)
		}
		s.unlock(l)
	}},
	{"in order of arrival", "both", "both", inOrderOfArrival},
	{"path removed while it is free", "both", "both", func(s *treeScene) {
		java, locks := s.java(), s.client(ttl)
		for range 3 {
			s.unlock(s.lock(locks))
			s.remove(s.path)
			java.Must("a", "LOCK", s.kind, s.path)
			java.Must("a", "UNLOCK", s.kind, s.path)
			s.queued(0)
			s.remove(s.path)
		}
	}},
}

// excludes checks that Java cannot take the lock.
func (s *treeScene) excludes(java *peer) {
	s.Helper()
	if s.kind == "mutex" {
		if got := java.Do("probe", "TRY", s.kind, s.path, 0); got.Word != "no" {
			s.Fatalf("acquire(0) beside a Go holder: %v", got)
		}
		return
	}
	java.Must("probe", "BEGIN", s.kind, s.path)
	s.queued(2)
	if got := java.Do("probe", "HELD", s.kind, s.path); got.Word != "no" {
		s.Fatalf("it leads beside a Go holder: %v", got)
	}
	java.Must("probe", "UNLOCK", s.kind, s.path)
	s.queued(1)
}

// inOrderOfArrival: both sides are granted the lock in the order of the queue, and tokens rise over both.
func inOrderOfArrival(s *treeScene) {
	java := s.java()
	holder := s.lock(s.client(treeLong))
	last := int64(holder.Token())
	var waits []func() int64
	for i := range 3 {
		locks := s.client(treeLong)
		waiting := s.locking(locks)
		s.queued(2*i + 2)
		waits = append(waits, func() int64 {
			l := s.granted(waiting).lease
			defer s.unlock(l)
			return int64(l.Token())
		})
		actor := fmt.Sprint("actor", i)
		asked := java.Ask(actor, "LOCK", s.kind, s.path)
		s.queued(2*i + 3)
		waits = append(waits, func() int64 {
			must.OK(s, await(s, "acquire() in Java", asked).Err())
			defer java.Must(actor, "UNLOCK", s.kind, s.path)
			return 512 * number(s, java.Must("czxid", "CZXID", s.kind, s.first()).Value)
		})
	}
	s.unlock(holder)
	for i, wait := range waits {
		token := wait()
		if token <= last {
			s.Errorf("claim %d has token %d after %d", i, token, last)
		}
		last = token
	}
}

// forMutex are the further cells of an InterProcessMutex.
var forMutex = []treeCell{
	{"waiter killed", "Go", "Java", func(s *treeScene) {
		java, locks := s.mortal(), s.client(ttl)
		l := s.lock(locks)
		java.Ask("a", "LOCK", s.kind, s.path)
		s.queued(2)
		java.Kill()
		s.unlock(l)
		s.unlock(s.lock(s.client(ttl))) // the dead waiter's session ends first
	}},
	{"waiter killed", "Java", "Go", func(s *treeScene) {
		java := s.java()
		java.Must("a", "LOCK", s.kind, s.path)
		g := s.mortalGo()
		g.Ask("a", "LOCK", "lock", s.name())
		s.queued(2)
		g.Kill()
		java.Must("a", "UNLOCK", s.kind, s.path)
		must.OK(s, await(s, "acquire() in Java", java.Ask("b", "LOCK", s.kind, s.path)).Err())
		java.Must("b", "UNLOCK", s.kind, s.path)
	}},
	{"waiter gives up", "Go", "Java", func(s *treeScene) {
		java, l := s.java(), s.lock(s.client(ttl))
		if got := java.Do("a", "TRY", s.kind, s.path, 300); got.Word != "no" {
			s.Errorf("acquire(300 ms) beside a Go holder: %v", got)
		}
		s.queued(1)
		s.unlock(l)
	}},
	{"waiter gives up", "Java", "Go", func(s *treeScene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", s.kind, s.path)
		ctx, cancel := context.WithCancel(s.Context())
		ended := make(chan error, 1)
		go func() { _, err := locks.Mutex(s.name()).Lock(ctx); ended <- err }()
		s.queued(2)
		cancel()
		if err := await(s, "the end of the wait", ended); !errors.Is(err, context.Canceled) {
			s.Fatalf("the canceled wait ended with %v", err)
		}
		s.queued(1)
		java.Must("a", "UNLOCK", s.kind, s.path)
		s.free()
	}},
	{"holder paused", "Java", "Go", func(s *treeScene) {
		java, locks := s.mortal(), s.client(ttl)
		java.Must("a", "LOCK", s.kind, s.path)
		node := s.first()
		_, stat, err := s.conn.Get(node)
		must.OK(s, err)
		waiting := s.locking(locks)
		s.queued(2)
		resume := java.Pause()
		l := s.granted(waiting).lease
		resume()
		if stale := stat.Czxid * 512; stale >= int64(l.Token()) {
			s.Errorf("the Java token %d is not below %v: a guard would not reject it", stale, l.Token())
		}
		java.Do("a", "UNLOCK", s.kind, s.path) // it removes nothing but its own node, which has gone
		s.queued(1)
		must.OK(s, l.Err())
		s.unlock(l)
	}},
	{"holder paused", "Go", "Java", func(s *treeScene) {
		java, g := s.java(), s.mortalGo()
		g.Must("a", "LOCK", "lock", s.name())
		resume := g.Pause()
		java.Must("a", "LOCK", s.kind, s.path)
		resume()
		lostInAPause(s, g, "a", "lock", s.name())
		java.Must("a", "HELD", s.kind, s.path)
		java.Must("a", "UNLOCK", s.kind, s.path)
	}},
	{"re-entered", "Java", "Go", func(s *treeScene) {
		java, locks := s.java(), s.client(treeLong)
		for range 3 {
			java.Must("a", "LOCK", s.kind, s.path)
		}
		waiting := s.locking(locks)
		s.queued(2)
		for range 3 {
			s.busy(s.client(ttl))
			java.Must("a", "UNLOCK", s.kind, s.path)
		}
		s.unlock(s.granted(waiting).lease)
	}},
	{"asked to release", "Go", "Java", func(s *treeScene) {
		java, l := s.java(), s.lock(s.client(ttl))
		wanted := l.Wanted()
		java.Must("a", "REVOKE", s.kind, s.first())
		await(s, "Wanted", wanted)
		must.OK(s, l.Err())
		s.unlock(l)
	}},
	{"asked to release", "Java", "Go", func(s *treeScene) {
		java := s.java()
		java.Must("a", "REVOCABLE", s.kind, s.path)
		java.Must("a", "LOCK", s.kind, s.path)
		o := treeOptions
		o.Revoke = true
		waiting := s.locking(s.clientOf(s.store(o), treeLong))
		java.Must("a", "REVOKED", s.kind, s.path, patience.Milliseconds())
		java.Must("a", "UNLOCK", s.kind, s.path)
		s.unlock(s.granted(waiting).lease)
	}},
	{"wanted by a waiter", "Go", "Java", func(s *treeScene) {
		java, l := s.java(), s.lock(s.client(ttl))
		wanted := l.Wanted()
		waiting := java.Ask("a", "LOCK", s.kind, s.path)
		await(s, "Wanted", wanted)
		s.unlock(l)
		must.OK(s, await(s, "acquire() in Java", waiting).Err())
		java.Must("a", "UNLOCK", s.kind, s.path)
	}},
}

// leaderSeen: Java sees the Go leader by the data of its node.
var leaderSeen = treeCell{"leader seen", "Go", "Java", func(s *treeScene) {
	java, l := s.java(), s.lock(s.client(ttl))
	if got := java.Must("a", "LEADER", s.kind, s.path).Value; !strings.Contains(got, `"owner"`) {
		s.Errorf("getLeader shows %s, want the record of the Go holder", got)
	}
	s.unlock(l)
}}

// treeSlow are the cells that wait for the end of a session or start further processes. A short run
// leaves them out.
var treeSlow = []string{"holder killed", "waiter killed", "holder paused", "waiter paused", "reply", "server"}

// treeFormat is a recipe that Go shares.
type treeFormat struct {
	title, kind string
	cells       []treeCell
}

// everyTreeCell returns the rows of the page in order.
func everyTreeCell() (all []row) {
	for _, f := range treeFormats() {
		for _, c := range f.cells {
			all = append(all, row{f.title, c.what, c.holder, c.waiter})
		}
	}
	return append(all, alikeRows()...)
}

// TestCurator plays all cells.
func TestCurator(t *testing.T) {
	for _, version := range curatorVersions {
		t.Run(version, func(t *testing.T) {
			stage := newTreeStage(t, version)
			for _, f := range treeFormats() {
				t.Run(f.title, func(t *testing.T) { stage.playAll(t, f) })
			}
		})
	}
}

func (s *treeStage) playAll(t *testing.T, f treeFormat) {
	for _, c := range f.cells {
		if !*all && isOneOf(c.what, treeSlow) {
			continue
		}
		t.Run(fmt.Sprintf("%s: holder %s, waiter %s", c.what, c.holder, c.waiter), func(t *testing.T) {
			t.Parallel()
			results.noteTest(t, row{f.title, c.what, c.holder, c.waiter}, s.version)
			s.play(t, f.kind, c.do)
		})
	}
}

// isOneOf reports whether a cell's name begins with one of the words.
func isOneOf(what string, words []string) bool {
	for _, w := range words {
		if strings.HasPrefix(what, w) {
			return true
		}
	}
	return false
}
