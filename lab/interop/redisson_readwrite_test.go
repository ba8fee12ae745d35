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

// readWrite are the cells of an RReadWriteLock.
var readWrite = slices.Concat(readersAndWriters, readersWoken, []cell{
	{"writer woken", "Java reads", "Go", func(s *scene) {
		java := s.java()
		java.Must("a", "LOCK", "read", s.name, long.Milliseconds())
		waiting := s.locking(s.client(s.long))
		begin := time.Now()
		java.Must("a", "UNLOCK", "read", s.name)
		s.woken(waiting, begin)
	}},
	{"writer woken", "Go reads", "Java", func(s *scene) {
		java, l := s.writes(), s.rlock(s.client(s.long))
		s.lasts()
		waiting := s.asking(java)
		s.unlock(l)
		s.has(waiting)
		must.OK(s, java.unlock())
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
		s.free(s)
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
		s.free(s)
	}},
	{"reader killed", "Java reads", "Go", func(s *scene) {
		java := s.by("read", true)
		s.takes(java)
		waiting := s.locking(s.client(ttl))
		java.Kill()
		s.leaves(waiting)
	}},
	{"reader killed", "Go reads", "Java", readerKilled},
	{"writer killed", "Java writes", "Go", writerKilled},
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
		java, locks := s.reads(), s.client(s.long)
		l, err := locks.RWMutex(s.name).Lock(s.Context())
		must.OK(s, err)
		s.lasts()
		waiting := s.asking(java)
		must.OK(s, locks.RWMutex(s.name).Downgrade(s.Context(), l))
		s.has(waiting)
		s.closed("write")
		must.OK(s, java.unlock())
		s.closed("write")
		s.unlock(l)
		s.free(s)
	}},
	{"downgraded", "Java writes", "Go", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", "write", s.name, -1)
		java.Must("a", "LOCK", "read", s.name, -1)
		s.rbusy(locks)
		java.Must("a", "UNLOCK", "write", s.name)
		l := s.rlock(locks)
		s.busy(s.client(ttl))
		java.Must("a", "UNLOCK", "read", s.name)
		s.busy(s.client(ttl))
		s.unlock(l)
		s.free(s)
	}},
	{"same on the wire", "both", "both", sameReadWrite},
	{"same in the store", "both", "both", sameInStore},
})

// leaveInEveryOrder: two Java readers and a Go reader leave; the lock is closed to writers until the
// last has left, and free then.
func leaveInEveryOrder(s *scene) {
	java, locks := s.java(), s.client(ttl)
	probe := s.client(ttl)
	for i, order := range [][]string{{"a", "b", "go"}, {"a", "go", "b"}, {"b", "a", "go"}, {"b", "go", "a"}, {"go", "a", "b"}, {"go", "b", "a"}} {
		one := s.at(fmt.Sprint(s.name, "/", i))
		java.Must("a", "LOCK", "read", one.name, -1)
		l := one.rlock(locks)
		java.Must("b", "LOCK", "read", one.name, -1)
		for left := 3; left > 0; left-- {
			one.busy(probe)
			one.closed("write")
			if who := order[3-left]; who == "go" {
				one.unlock(l)
			} else {
				java.Must(who, "UNLOCK", "read", one.name)
			}
		}
		one.free(one)
	}
}

// forceRW: Java forces a side of the lock open.
func forceRW(s *scene, kind string) {
	java, locks := s.java(), s.client(ttl)
	take := map[string]func(*fencelock.Client) *fencelock.Lease{"read": s.rlock, "write": s.lock}[kind]
	l := take(locks)
	java.Must("b", "FORCE", kind, s.name)
	java.Must("a", "LOCK", "write", s.name, -1)
	s.noticed(l, fencelock.ErrLost)
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
		stop := monitor(s, s.server())
		java.Must("a", "LOCK", side.kind, s.name, -1)
		java.Must("a", "UNLOCK", side.kind, s.name)
		theirs := normal(written(stop(), s.name))
		stop = monitor(s, s.server())
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
