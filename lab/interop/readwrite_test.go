// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
)

// Beside an RReadWriteLock a scene needs both sides of it in both languages. The kinds in Java are
// read and write.

// rlock takes the lock for reading in Go.
func (s *scene) rlock(locks *fencelock.Client) *fencelock.Lease {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	l, err := locks.RWMutex(s.name).RLock(ctx)
	must.OK(s, err)
	return l
}

// rlocking is rlock in the background.
func (s *scene) rlocking(locks *fencelock.Client) <-chan result {
	c := make(chan result, 1)
	go func() {
		ctx, cancel := context.WithTimeout(s.Context(), patience)
		defer cancel()
		l, err := locks.RWMutex(s.name).RLock(ctx)
		c <- result{l, err, time.Now()}
	}()
	return c
}

// closedTo checks that Java cannot take a side of the lock.
func (s *scene) closedTo(java *peer, kinds ...string) {
	s.Helper()
	for _, kind := range kinds {
		if got := java.Do("probe", "TRY", kind, s.name, 0, -1); got.Word != "no" {
			s.Fatalf("tryLock for %s: %v", kind, got)
		}
	}
}

// rclosed checks that Go cannot read.
func (s *scene) rclosed(locks *fencelock.Client) {
	s.Helper()
	if _, err := locks.RWMutex(s.name).TryRLock(s.Context()); !errors.Is(err, fencelock.ErrBusy) {
		s.Fatalf("TryRLock beside a writer: %v", err)
	}
}

// readWrite are the cells of an RReadWriteLock.
var readWrite = []cell{
	{"readers together, writers excluded", "Java reads", "Go", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", "read", s.name, -1)
		l := s.rlock(locks)
		s.busy(s.client(ttl))
		s.closedTo(java, "write")
		s.unlock(l)
		s.busy(s.client(ttl))
		java.Must("a", "UNLOCK", "read", s.name)
		s.free()
	}},
	{"readers together, writers excluded", "Go reads", "Java", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		l := s.rlock(locks)
		java.Must("a", "TRY", "read", s.name, 0, -1)
		s.closedTo(java, "write")
		java.Must("a", "UNLOCK", "read", s.name)
		s.closedTo(java, "write")
		s.unlock(l)
		s.free()
	}},
	{"readers and writers excluded", "Java writes", "Go", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", "write", s.name, -1)
		s.busy(locks)
		s.rclosed(locks)
		java.Must("a", "UNLOCK", "write", s.name)
		s.unlock(s.lock(locks))
		s.free()
	}},
	{"readers and writers excluded", "Go writes", "Java", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		l := s.lock(locks)
		s.closedTo(java, "read", "write")
		s.unlock(l)
		java.Must("a", "TRY", "write", s.name, 0, -1)
		java.Must("a", "UNLOCK", "write", s.name)
		s.free()
	}},
	{"readers woken", "Java writes", "Go", func(s *scene) {
		java := s.java()
		java.Must("a", "LOCK", "write", s.name, long.Milliseconds())
		a, b := s.waiter(long), s.waiter(long)
		first, second := a.locking(s, s.name, a.RWMutex(s.name).RLock), b.locking(s, s.name, b.RWMutex(s.name).RLock)
		begin := time.Now()
		java.Must("a", "UNLOCK", "write", s.name)
		s.unlock(s.wokenSoon(first, begin))
		s.unlock(s.wokenSoon(second, begin))
	}},
	{"readers woken", "Go writes", "Java", func(s *scene) {
		java, locks := s.java(), s.client(long)
		l := s.lock(locks)
		s.lasts()
		first, second := java.Ask("a", "LOCK", "read", s.name, -1), java.Ask("b", "LOCK", "read", s.name, -1)
		for _, actor := range []string{"a", "b"} { // the message of a writer reaches only those that wait already
			s.waits(java, actor)
		}
		s.unlock(l)
		must.OK(s, await(s, "the first reader in Java", first).Err())
		must.OK(s, await(s, "the second reader in Java", second).Err())
		java.Must("a", "UNLOCK", "read", s.name)
		java.Must("b", "UNLOCK", "read", s.name)
	}},
	{"writer woken", "Java reads", "Go", func(s *scene) {
		java := s.java()
		java.Must("a", "LOCK", "read", s.name, long.Milliseconds())
		w := s.waiter(long)
		waiting := w.locking(s, s.name, w.Mutex(s.name).Lock)
		begin := time.Now()
		java.Must("a", "UNLOCK", "read", s.name)
		s.unlock(s.wokenSoon(waiting, begin))
	}},
	{"writer woken", "Go reads", "Java", func(s *scene) {
		java, locks := s.java(), s.client(long)
		l := s.rlock(locks)
		s.lasts()
		waiting := java.Ask("a", "LOCK", "write", s.name, -1)
		s.waits(java, "a")
		s.unlock(l)
		must.OK(s, await(s, "the writer in Java", waiting).Err())
		java.Must("a", "UNLOCK", "write", s.name)
	}},
	{"readers leave in every order", "both read", "both", leaveInEveryOrder},
	{"renewed while another reader leaves", "Go reads", "Java", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		l := s.rlock(locks)
		java.Must("a", "LOCK", "read", s.name, -1)
		if got := java.Do("b", "TRY", "write", s.name, (ttl + ttl/2).Milliseconds(), -1); got.Word != "no" {
			s.Fatalf("a writer beside two readers: %v", got)
		}
		java.Must("a", "UNLOCK", "read", s.name)
		if got := java.Do("b", "TRY", "write", s.name, (ttl + ttl/2).Milliseconds(), -1); got.Word != "no" {
			s.Fatalf("a writer beside a reader: %v", got)
		}
		must.OK(s, l.Err())
		s.unlock(l)
		s.free()
	}},
	{"renewed while another reader leaves", "Java reads", "Go", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", "read", s.name, -1)
		s.unlock(s.rlock(locks))
		ctx, cancel := context.WithTimeout(s.Context(), watchdog+watchdog/2)
		defer cancel()
		if _, err := locks.Mutex(s.name).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			s.Fatalf("a writer beside a Java reader that renews: %v", err)
		}
		java.Must("a", "UNLOCK", "read", s.name)
		s.free()
	}},
	{"reader killed", "Java reads", "Go", func(s *scene) {
		java := s.mortal()
		java.Must("a", "LOCK", "read", s.name, -1)
		waiting := s.locking(s.client(ttl))
		s.listened(1)
		java.Kill()
		s.unlock(s.granted(waiting).lease)
	}},
	{"reader killed", "Go reads", "Java", func(s *scene) {
		g := s.mortalGo(ttl)
		g.Must("a", "LOCK", "read", s.name)
		g.Kill()
		s.java().Must("a", "LOCK", "write", s.name, -1)
		s.java().Must("a", "UNLOCK", "write", s.name)
	}},
	{"writer killed", "Java writes", "Go", func(s *scene) {
		java := s.mortal()
		java.Must("a", "LOCK", "write", s.name, -1)
		waiting := s.rlocking(s.client(ttl))
		s.listened(1)
		java.Kill()
		s.unlock(s.granted(waiting).lease)
	}},
	{"writer killed", "Go writes", "Java", func(s *scene) {
		g := s.mortalGo(ttl)
		g.Must("a", "LOCK", "lock", s.name)
		g.Kill()
		s.java().Must("a", "LOCK", "read", s.name, -1)
		s.java().Must("a", "UNLOCK", "read", s.name)
	}},
	{"forced open", "Go reads", "Java", func(s *scene) { forceRW(s, "read") }},
	{"forced open", "Go writes", "Java", func(s *scene) { forceRW(s, "write") }},
	{"downgraded", "Go writes", "Java", func(s *scene) {
		java, locks := s.java(), s.client(long)
		l, err := locks.RWMutex(s.name).Lock(s.Context())
		must.OK(s, err)
		s.lasts()
		waiting := java.Ask("a", "LOCK", "read", s.name, -1)
		s.waits(java, "a")
		must.OK(s, locks.RWMutex(s.name).Downgrade(s.Context(), l))
		must.OK(s, await(s, "the reader in Java", waiting).Err())
		s.closedTo(java, "write")
		java.Must("a", "UNLOCK", "read", s.name)
		s.closedTo(java, "write")
		s.unlock(l)
		s.free()
	}},
	{"downgraded", "Java writes", "Go", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", "write", s.name, -1)
		java.Must("a", "LOCK", "read", s.name, -1)
		s.rclosed(locks)
		java.Must("a", "UNLOCK", "write", s.name)
		l := s.rlock(locks)
		s.busy(s.client(ttl))
		java.Must("a", "UNLOCK", "read", s.name)
		s.busy(s.client(ttl))
		s.unlock(l)
		s.free()
	}},
	{"same on the wire", "both", "both", sameReadWrite},
	{"same in the store", "both", "both", sameInStore},
}

// leaveInEveryOrder: two Java readers and a Go reader leave; the lock is closed to writers until the
// last has left, and free then.
func leaveInEveryOrder(s *scene) {
	java, locks := s.java(), s.client(ttl)
	probe := s.client(ttl)
	for i, order := range [][]string{{"a", "b", "go"}, {"a", "go", "b"}, {"b", "a", "go"}, {"b", "go", "a"}, {"go", "a", "b"}, {"go", "b", "a"}} {
		one := *s
		one.name = fmt.Sprint(s.name, "/", i)
		java.Must("a", "LOCK", "read", one.name, -1)
		l := one.rlock(locks)
		java.Must("b", "LOCK", "read", one.name, -1)
		for left := 3; left > 0; left-- {
			one.busy(probe)
			one.closedTo(java, "write")
			if who := order[3-left]; who == "go" {
				one.unlock(l)
			} else {
				java.Must(who, "UNLOCK", "read", one.name)
			}
		}
		one.free()
	}
}

// forceRW: Java forces a side of the lock open.
func forceRW(s *scene, kind string) {
	java, locks := s.java(), s.client(ttl)
	take := map[string]func(*fencelock.Client) *fencelock.Lease{"read": s.rlock, "write": s.lock}[kind]
	l := take(locks)
	java.Must("b", "FORCE", kind, s.name)
	java.Must("a", "LOCK", "write", s.name, -1)
	await(s, "the notice of the Go holder", l.Context().Done())
	if err := context.Cause(l.Context()); !errors.Is(err, fencelock.ErrLost) {
		s.Errorf("the lease ended with %v", err)
	}
	_ = l.Unlock(s.Context())
	java.Must("a", "HELD", "write", s.name)
	java.Must("a", "UNLOCK", "write", s.name)
}

// sameReadWrite: Go writes and publishes what Redisson does, for both sides.
func sameReadWrite(s *scene) {
	s = s.apart()
	java, locks := s.java(), s.client(ttl)
	s.unlock(s.lock(locks)) // opens the session
	for _, side := range []struct {
		kind string
		take func(*fencelock.Client) *fencelock.Lease
	}{{"write", s.lock}, {"read", s.rlock}} {
		java.Must("a", "LOCK", side.kind, s.name, -1) // so that all scripts are loaded
		java.Must("a", "UNLOCK", side.kind, s.name)
		stop := monitor(s, s.server)
		java.Must("a", "LOCK", side.kind, s.name, -1)
		java.Must("a", "UNLOCK", side.kind, s.name)
		theirs := normal(written(stop(), s.name))
		stop = monitor(s, s.server)
		s.unlock(side.take(locks))
		if ours := normal(written(stop(), s.name)); len(theirs) < 5 || !slices.Equal(ours, theirs) {
			s.Errorf("%s: Go writes\n\t%s\nRedisson %s writes\n\t%s", side.kind, strings.Join(ours, "\n\t"), s.version, strings.Join(theirs, "\n\t"))
		}
	}
}

// normal sorts what was written and drops repetitions: the order of writes in a script is not seen
// from outside.
func normal(lines []string) []string {
	for i, l := range lines {
		lines[i] = holders.ReplaceAllString(l, "UUID:NUMBER")
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
