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
	"github.com/fencelock/fencelock/internal/servers"
)

// treeReadWrite are the cells of an InterProcessReadWriteLock. The kinds in Java are read and write.
var treeReadWrite = slices.Concat(readersAndWriters, readersWoken, []cell{
	{"writer woken by the last reader", "both read", "Go", func(s *scene) {
		java, l := s.reads(), s.rlock(s.client(treeLong))
		s.takes(java)
		waiting := s.locking(s.client(treeLong))
		must.OK(s, java.unlock())
		s.queued(2)
		s.watched(1)
		begin := time.Now()
		s.unlock(l)
		s.woken(waiting, begin)
	}},
	{"writer woken by the last reader", "both read", "Java", func(s *scene) {
		java, writer, l := s.reads(), s.by("write", false), s.rlock(s.client(treeLong))
		s.takes(java)
		waiting := s.asking(writer)
		must.OK(s, servers.Await("it waits for a watch", writer.waits))
		s.unlock(l)
		must.OK(s, java.unlock())
		s.has(waiting)
		must.OK(s, writer.unlock())
	}},
	{"writer not overtaken", "Java reads", "both", func(s *scene) {
		java, behind := s.reads(), s.reads()
		s.takes(java)
		writer := s.locking(s.client(treeLong))
		reader := s.asking(behind)
		s.closed("read")
		must.OK(s, java.unlock())
		l := granted(s, writer).lease
		s.queued(2)
		s.unlock(l)
		s.has(reader)
		must.OK(s, behind.unlock())
	}},
	{"holder killed", "Java writes", "Go", writerKilled},
	{"holder killed", "Go reads", "Java", readerKilled},
	{"downgraded", "Go writes", "Java", func(s *scene) {
		java, other, locks := s.reads(), s.writes(), s.client(treeLong)
		l := s.lock(locks)
		reader, writer := s.asking(java), s.asking(other)
		must.OK(s, locks.RWMutex(s.name).Downgrade(s.Context(), l))
		s.has(reader)
		must.OK(s, java.unlock())
		s.closed("write")
		s.unlock(l)
		s.has(writer)
		must.OK(s, other.unlock())
	}},
	{"downgraded", "Java writes", "Go", func(s *scene) {
		java := s.java()
		java.Must("a", "LOCK", "write", s.path())
		writer := s.locking(s.client(treeLong))
		java.Must("a", "LOCK", "read", s.path()) // in the place of the writer
		java.Must("a", "UNLOCK", "write", s.path())
		s.busy(s.client(ttl))
		s.queued(2)
		java.Must("a", "UNLOCK", "read", s.path())
		s.leaves(writer)
	}},
	{"node of a downgrade", "both", "both", func(s *scene) {
		ours, theirs := s.at(s.name+"/go"), s.at(s.name+"/java")
		locks := ours.client(treeLong)
		l := ours.lock(locks)
		must.OK(s, locks.RWMutex(ours.name).Downgrade(s.Context(), l))
		java := s.java()
		java.Must("a", "LOCK", "write", theirs.path())
		java.Must("a", "LOCK", "read", theirs.path())
		java.Must("a", "UNLOCK", "write", theirs.path())
		a, b := ours.shape(), theirs.shape()
		tail := func(all []string) string { return tokenInName.ReplaceAllString(all[len(all)-1], "ID-") }
		if tail(a) != tail(b) {
			s.Errorf("Go leaves\n\t%s\nCurator leaves\n\t%s", strings.Join(a, "\n\t"), strings.Join(b, "\n\t"))
		}
		s.unlock(l)
		java.Must("a", "UNLOCK", "read", theirs.path())
	}},
	{"node deleted by hand", "Go writes", "Java", func(s *scene) {
		java, l := s.reads(), s.lock(s.client(ttl))
		waiting := s.asking(java)
		s.remove(s.first())
		s.has(waiting)
		s.noticed(l, fencelock.ErrLost)
		must.OK(s, java.unlock())
	}},
	{"other recipe at the path", "Java", "Go", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", "mutex", s.path())
		if _, err := locks.Mutex(s.name).TryLock(s.Context()); !errors.Is(err, driver.ErrRefused) {
			s.Errorf("a read-write lock at the path of an InterProcessMutex: %v, want ErrRefused", err)
		}
		java.Must("a", "UNLOCK", "mutex", s.path())
	}},
})

// randomNumbers are n numbers of claims, often with few digits, each once.
func randomNumbers(seed, n int) (all []int32) {
	for len(all) < n {
		if x := rand.Int32N([]int32{10, 100, 1 << 10, 1<<31 - 1<<20}[seed%4]); !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}
