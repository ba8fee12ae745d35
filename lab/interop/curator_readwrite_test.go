// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

// rlocking takes the lock for reading in Go, in the background.
func (s *treeScene) rlocking(locks *fencelock.Client) <-chan result {
	return s.taking(locks.RWMutex(s.name()).RLock)
}

// rlock takes the lock for reading in Go.
func (s *treeScene) rlock(locks *fencelock.Client) *fencelock.Lease {
	s.Helper()
	return s.granted(s.rlocking(locks)).lease
}

// closedTo checks that Java cannot take a side of the lock.
func (s *treeScene) closedTo(java *peer, kinds ...string) {
	s.Helper()
	for _, kind := range kinds {
		if got := java.Do("probe", "TRY", kind, s.path, 0); got.Word != "no" {
			s.Fatalf("acquire(0) for %s: %v", kind, got)
		}
	}
}

// treeReadWrite are the cells of an InterProcessReadWriteLock. The kinds in Java are read and write.
var treeReadWrite = []treeCell{
	{"readers together, writers excluded", "Java reads", "Go", func(s *treeScene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", "read", s.path)
		l := s.rlock(locks)
		s.busy(s.client(ttl))
		s.unlock(l)
		s.busy(s.client(ttl))
		java.Must("a", "UNLOCK", "read", s.path)
		s.unlock(s.lock(locks))
		s.free()
	}},
	{"readers together, writers excluded", "Go reads", "Java", func(s *treeScene) {
		java, locks := s.java(), s.client(ttl)
		l := s.rlock(locks)
		java.Must("a", "TRY", "read", s.path, 0)
		s.closedTo(java, "write")
		java.Must("a", "UNLOCK", "read", s.path)
		s.closedTo(java, "write")
		s.unlock(l)
		java.Must("a", "TRY", "write", s.path, 0)
		java.Must("a", "UNLOCK", "write", s.path)
		s.free()
	}},
	{"readers and writers excluded", "Java writes", "Go", func(s *treeScene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", "write", s.path)
		s.busy(locks)
		if _, err := locks.RWMutex(s.name()).TryRLock(s.Context()); !errors.Is(err, fencelock.ErrBusy) {
			s.Errorf("TryRLock beside a writer: %v", err)
		}
		java.Must("a", "UNLOCK", "write", s.path)
		s.free()
	}},
	{"readers and writers excluded", "Go writes", "Java", func(s *treeScene) {
		java, l := s.java(), s.lock(s.client(ttl))
		s.closedTo(java, "read", "write")
		s.unlock(l)
		s.free()
	}},
	{"readers woken", "Java writes", "Go", func(s *treeScene) {
		java := s.java()
		java.Must("a", "LOCK", "write", s.path)
		one, two := s.rlocking(s.client(treeLong)), s.rlocking(s.client(treeLong))
		s.queued(3)
		s.watched(s.first(), 2)
		begin := time.Now()
		java.Must("a", "UNLOCK", "write", s.path)
		s.unlock(s.woken(one, begin))
		s.unlock(s.woken(two, begin))
	}},
	{"readers woken", "Go writes", "Java", func(s *treeScene) {
		java, l := s.java(), s.lock(s.client(treeLong))
		one, two := java.Ask("a", "LOCK", "read", s.path), java.Ask("b", "LOCK", "read", s.path)
		s.queued(3)
		s.waits(java, "a", "b")
		s.unlock(l)
		must.OK(s, await(s, "a reader in Java", one).Err())
		must.OK(s, await(s, "a reader in Java", two).Err())
		java.Must("a", "UNLOCK", "read", s.path)
		java.Must("b", "UNLOCK", "read", s.path)
	}},
	{"writer woken by the last reader", "both read", "Go", func(s *treeScene) {
		java, l := s.java(), s.rlock(s.client(treeLong))
		java.Must("a", "LOCK", "read", s.path)
		waiting := s.locking(s.client(treeLong))
		s.queued(3)
		java.Must("a", "UNLOCK", "read", s.path)
		s.queued(2)
		s.watched(s.first(), 1)
		begin := time.Now()
		s.unlock(l)
		s.unlock(s.woken(waiting, begin))
	}},
	{"writer woken by the last reader", "both read", "Java", func(s *treeScene) {
		java, l := s.java(), s.rlock(s.client(treeLong))
		java.Must("a", "LOCK", "read", s.path)
		waiting := java.Ask("b", "LOCK", "write", s.path)
		s.queued(3)
		s.waits(java, "b")
		s.unlock(l)
		java.Must("a", "UNLOCK", "read", s.path)
		must.OK(s, await(s, "the writer in Java", waiting).Err())
		java.Must("b", "UNLOCK", "write", s.path)
	}},
	{"writer not overtaken", "Java reads", "both", func(s *treeScene) {
		java := s.java()
		java.Must("a", "LOCK", "read", s.path)
		writer := s.locking(s.client(treeLong))
		s.queued(2)
		reader := java.Ask("b", "LOCK", "read", s.path)
		s.queued(3)
		s.closedTo(java, "read")
		java.Must("a", "UNLOCK", "read", s.path)
		l := s.granted(writer).lease
		s.queued(2)
		s.unlock(l)
		must.OK(s, await(s, "the reader behind the writer", reader).Err())
		java.Must("b", "UNLOCK", "read", s.path)
	}},
	{"holder killed", "Java writes", "Go", func(s *treeScene) {
		java := s.mortal()
		java.Must("a", "LOCK", "write", s.path)
		waiting := s.rlocking(s.client(ttl))
		s.queued(2)
		java.Kill()
		s.unlock(s.granted(waiting).lease)
	}},
	{"holder killed", "Go reads", "Java", func(s *treeScene) {
		java, g := s.java(), s.mortalGo()
		g.Must("a", "LOCK", "read", s.name())
		g.Kill()
		java.Must("a", "LOCK", "write", s.path)
		java.Must("a", "UNLOCK", "write", s.path)
	}},
	{"downgraded", "Go writes", "Java", func(s *treeScene) {
		java, locks := s.java(), s.client(treeLong)
		l := s.lock(locks)
		reader := java.Ask("a", "LOCK", "read", s.path)
		s.queued(2)
		writer := java.Ask("b", "LOCK", "write", s.path)
		s.queued(3)
		must.OK(s, locks.RWMutex(s.name()).Downgrade(s.Context(), l))
		must.OK(s, await(s, "the reader in Java", reader).Err())
		java.Must("a", "UNLOCK", "read", s.path)
		s.closedTo(java, "write")
		s.unlock(l)
		must.OK(s, await(s, "the writer in Java", writer).Err())
		java.Must("b", "UNLOCK", "write", s.path)
	}},
	{"downgraded", "Java writes", "Go", func(s *treeScene) {
		java := s.java()
		java.Must("a", "LOCK", "write", s.path)
		writer := s.locking(s.client(treeLong))
		s.queued(2)
		java.Must("a", "LOCK", "read", s.path) // in the place of the writer
		java.Must("a", "UNLOCK", "write", s.path)
		s.busy(s.client(ttl))
		s.queued(2)
		java.Must("a", "UNLOCK", "read", s.path)
		s.unlock(s.granted(writer).lease)
	}},
	{"node of a downgrade", "both", "both", func(s *treeScene) {
		ours, theirs := *s, *s
		ours.path, theirs.path = s.path+"/go", s.path+"/java"
		locks := ours.client(treeLong)
		l := ours.lock(locks)
		must.OK(s, locks.RWMutex(ours.name()).Downgrade(s.Context(), l))
		java := s.java()
		java.Must("a", "LOCK", "write", theirs.path)
		java.Must("a", "LOCK", "read", theirs.path)
		java.Must("a", "UNLOCK", "write", theirs.path)
		a, b := ours.shape(), theirs.shape()
		tail := func(all []string) string { return tokenInName.ReplaceAllString(all[len(all)-1], "ID-") }
		if tail(a) != tail(b) {
			s.Errorf("Go leaves\n\t%s\nCurator leaves\n\t%s", strings.Join(a, "\n\t"), strings.Join(b, "\n\t"))
		}
		s.unlock(l)
		java.Must("a", "UNLOCK", "read", theirs.path)
	}},
	{"node deleted by hand", "Go writes", "Java", func(s *treeScene) {
		java, l := s.java(), s.lock(s.client(ttl))
		waiting := java.Ask("a", "LOCK", "read", s.path)
		s.queued(2)
		s.remove(s.first())
		must.OK(s, await(s, "the reader in Java", waiting).Err())
		await(s, "the notice of the Go holder", l.Context().Done())
		java.Must("a", "UNLOCK", "read", s.path)
	}},
	{"other recipe at the path", "Java", "Go", func(s *treeScene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", "mutex", s.path)
		if _, err := locks.Mutex(s.name()).TryLock(s.Context()); !errors.Is(err, driver.ErrRefused) {
			s.Errorf("a read-write lock at the path of an InterProcessMutex: %v, want ErrRefused", err)
		}
		java.Must("a", "UNLOCK", "mutex", s.path)
	}},
}

// randomNumbers are n numbers of claims, often with few digits, each once.
func randomNumbers(seed, n int) (all []int32) {
	for len(all) < n {
		if x := rand.Int32N([]int32{10, 100, 1 << 10, 1<<31 - 1<<20}[seed%4]); !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}
