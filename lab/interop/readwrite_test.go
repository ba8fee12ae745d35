// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// The cells that the read-write locks of Redisson and of Curator have. A scene needs both sides of one in both languages; the
// kinds in Java are read and write.
var (
	readersAndWriters = []cell{
		{"readers together, writers excluded", "Java reads", "Go", func(s *scene) {
			java, locks := s.reads(), s.client(ttl)
			s.takes(java)
			l := s.rlock(locks)
			s.busy(s.client(ttl))
			s.closed("write")
			s.unlock(l)
			s.busy(s.client(ttl))
			must.OK(s, java.unlock())
			s.unlock(s.lock(locks))
			s.free(s)
		}},
		{"readers together, writers excluded", "Go reads", "Java", func(s *scene) {
			java, l := s.by("read", false), s.rlock(s.client(ttl))
			must.OK(s, java.tries().Err())
			s.closed("write")
			must.OK(s, java.unlock())
			s.closed("write")
			s.unlock(l)
			writer := s.by("write", false)
			must.OK(s, writer.tries().Err())
			must.OK(s, writer.unlock())
			s.free(s)
		}},
		{"readers and writers excluded", "Java writes", "Go", func(s *scene) {
			java, locks := s.writes(), s.client(ttl)
			s.takes(java)
			s.busy(locks)
			s.rbusy(locks)
			must.OK(s, java.unlock())
			s.unlock(s.lock(locks))
			s.free(s)
		}},
		{"readers and writers excluded", "Go writes", "Java", func(s *scene) {
			java, l := s.by("write", false), s.lock(s.client(ttl))
			s.closed("read", "write")
			s.unlock(l)
			must.OK(s, java.tries().Err())
			must.OK(s, java.unlock())
			s.free(s)
		}},
	}
	readersWoken = []cell{
		{"readers woken", "Java writes", "Go", func(s *scene) {
			java := s.writes()
			s.takes(java)
			one, two := s.rlocking(s.client(s.long)), s.rlocking(s.client(s.long))
			s.watched(2)
			begin := time.Now()
			must.OK(s, java.unlock())
			s.woken(one, begin)
			s.woken(two, begin)
		}},
		{"readers woken", "Go writes", "Java", func(s *scene) {
			l := s.lock(s.client(s.long))
			s.lasts()
			a, b := s.by("read", false), s.by("read", false)
			one, two := s.asking(a), s.asking(b)
			for _, c := range []*actor{a, b} { // the message of a writer reaches only those that wait already
				must.OK(s, servers.Await("a reader waits", c.waits))
			}
			s.unlock(l)
			s.has(one)
			s.has(two)
			must.OK(s, a.unlock())
			must.OK(s, b.unlock())
		}},
	}
)

// closed checks that Java cannot take a side of the lock.
func (s *scene) closed(kinds ...string) {
	s.Helper()
	for _, kind := range kinds {
		if got := s.by(kind, false).tries(); got.Word != "no" {
			s.Fatalf("an attempt to %s: %v", kind, got)
		}
	}
}

// writerKilled: a Java writer, while Go waits to read. readerKilled: a Go reader, and Java writes then.
func writerKilled(s *scene) {
	java := s.by("write", true)
	s.takes(java)
	waiting := s.rlocking(s.client(ttl))
	java.Kill()
	s.leaves(waiting)
}

func readerKilled(s *scene) {
	java, g := s.writes(), s.mortalGo(ttl)
	g.Must("a", "LOCK", "read", s.name)
	g.Kill()
	s.takes(java)
	must.OK(s, java.unlock())
}
