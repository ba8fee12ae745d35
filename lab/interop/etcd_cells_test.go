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
	"github.com/fencelock/fencelock/internal/servers"
)

const etcdTitle = "etcd package concurrency"

// etcdCell is one thing that must be so between a holder and a waiter.
type etcdCell struct {
	what           string
	holder, waiter string
	do             func(*etcdScene)
}

var etcdCells = []etcdCell{
	{"excluded", "other", "fencelock", func(s *etcdScene) {
		other, locks := s.other(), s.client(etcdTTL)
		s.takes(other)
		s.busy(locks)
		must.OK(s, other.unlock())
		s.unlock(s.lock(locks))
		s.queued(0)
	}},
	{"excluded", "fencelock", "other", func(s *etcdScene) {
		other, l := s.other(), s.lock(s.client(etcdTTL))
		waiting := other.lock()
		s.queued(2)
		select {
		case got := <-waiting:
			s.Fatalf("it took the lock beside a Go holder: %v", got)
		default:
		}
		must.OK(s, l.Err())
		s.unlock(l)
		s.has(waiting)
		must.OK(s, other.unlock())
		s.queued(0)
	}},
	{"woken", "other", "fencelock", func(s *etcdScene) {
		other, locks := s.other(), s.client(etcdLong)
		s.takes(other)
		waiting := s.locking(locks)
		s.queued(2)
		begin := time.Now()
		must.OK(s, other.unlock())
		r := s.granted(waiting)
		if took := r.at.Sub(begin); took > etcdTTL/2 { // it polls when the lease of the holder ends
			s.Errorf("it was woken after %v", took)
		}
		s.unlock(r.lease)
	}},
	{"woken", "fencelock", "other", func(s *etcdScene) {
		other, l := s.other(), s.lock(s.client(etcdLong))
		waiting := other.lock()
		s.queued(2)
		s.unlock(l)
		s.has(waiting)
		must.OK(s, other.unlock())
	}},
	{"holder killed", "other", "fencelock", func(s *etcdScene) {
		other, locks := s.other(), s.client(etcdTTL)
		s.takes(other)
		waiting := s.locking(locks)
		s.queued(2)
		other.kill()
		s.unlock(s.granted(waiting).lease)
	}},
	{"holder killed", "fencelock", "other", func(s *etcdScene) {
		other, g := s.other(), s.mortalGo()
		g.Must("a", "LOCK", "lock", s.name)
		waiting := other.lock()
		s.queued(2)
		g.Kill()
		s.has(waiting)
		must.OK(s, other.unlock())
	}},
	{"waiter killed", "other", "fencelock", func(s *etcdScene) {
		first, second := s.other(), s.other()
		s.takes(first)
		g := s.mortalGo()
		g.Ask("a", "LOCK", "lock", s.name)
		s.queued(2)
		waiting := second.lock()
		s.queued(3)
		g.Kill()
		must.OK(s, first.unlock())
		s.has(waiting) // when the lease of the dead waiter has ended
		must.OK(s, second.unlock())
	}},
	{"waiter killed", "fencelock", "other", func(s *etcdScene) {
		other, l := s.other(), s.lock(s.client(etcdTTL))
		other.lock()
		s.queued(2)
		waiting := s.locking(s.client(etcdTTL))
		s.queued(3)
		other.kill()
		s.unlock(l)
		s.unlock(s.granted(waiting).lease)
	}},
	{"holder paused", "other", "fencelock", func(s *etcdScene) {
		other, locks := s.other(), s.client(etcdTTL)
		s.takes(other)
		stale := s.keys().Kvs[0].CreateRevision * 16384
		waiting := s.locking(locks)
		s.queued(2)
		resume := other.pause()
		l := s.granted(waiting).lease
		resume()
		if stale >= int64(l.Token()) {
			s.Errorf("its token %d is not below %v: a guard would not reject it", stale, l.Token())
		}
		must.OK(s, l.Err())
		s.queued(1)
		s.unlock(l)
	}},
	{"holder paused", "fencelock", "other", func(s *etcdScene) {
		other, g := s.other(), s.mortalGo()
		g.Must("a", "LOCK", "lock", s.name)
		resume := g.Pause()
		s.takes(other)
		resume()
		lostInAPause(s, g, "a", "lock", s.name)
		s.queued(1)
		must.OK(s, other.unlock())
	}},
	{"waiter paused", "other", "fencelock", func(s *etcdScene) {
		first, second, g := s.other(), s.other(), s.mortalGo()
		s.takes(first)
		waiting := g.Ask("a", "LOCK", "lock", s.name)
		s.queued(2)
		resume := g.Pause()
		must.OK(s, first.unlock())
		s.takes(second) // when the lease of the paused waiter has ended
		resume()
		must.OK(s, second.unlock())
		must.OK(s, await(s, "Lock in Go after a pause", waiting).Err())
		g.Must("a", "UNLOCK", "lock", s.name)
		s.queued(0)
	}},
	{"waiter paused", "fencelock", "other", func(s *etcdScene) {
		other, l := s.other(), s.lock(s.client(etcdTTL))
		other.lock()
		s.queued(2)
		resume := other.pause()
		s.unlock(l)
		l = s.lock(s.client(etcdTTL)) // when the lease of the paused waiter has ended
		resume()
		must.OK(s, l.Err())
		s.unlock(l)
	}},
	{"waiter gives up", "other", "fencelock", func(s *etcdScene) {
		other, locks := s.other(), s.client(etcdTTL)
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
		s.queued(0)
	}},
	{"waiter gives up", "fencelock", "other", func(s *etcdScene) {
		other, l := s.other(), s.lock(s.client(etcdTTL))
		other.lock()
		s.queued(2)
		other.giveUp()
		s.queued(1) // at once, or when the lease has ended
		s.unlock(l)
		s.queued(0)
	}},
	{"key deleted by hand", "other", "fencelock", func(s *etcdScene) {
		other, locks := s.other(), s.client(etcdLong)
		s.takes(other)
		waiting := s.locking(locks)
		s.queued(2)
		s.deleteFirst()
		s.unlock(s.granted(waiting).lease)
	}},
	{"key deleted by hand", "fencelock", "other", func(s *etcdScene) {
		other, l := s.other(), s.lock(s.client(etcdTTL))
		waiting := other.lock()
		s.queued(2)
		s.deleteFirst()
		s.has(waiting)
		await(s, "the notice of the Go holder", l.Context().Done())
		if err := context.Cause(l.Context()); !errors.Is(err, fencelock.ErrBroken) {
			s.Errorf("the lease ended with %v", err)
		}
		s.queued(1)
		must.OK(s, other.unlock())
	}},
	{"key deleted by hand, then unlocked", "fencelock", "other", func(s *etcdScene) {
		other, l := s.other(), s.lock(s.client(etcdLong))
		waiting := other.lock()
		s.queued(2)
		s.deleteFirst()
		s.has(waiting)
		if err := l.Unlock(s.Context()); !errors.Is(err, fencelock.ErrLost) {
			s.Errorf("Unlock of a lock that was lost: %v", err)
		}
		s.queued(1)
		must.OK(s, other.unlock())
	}},
	{"broken by an operator", "other", "fencelock", func(s *etcdScene) {
		other, locks := s.other(), s.client(etcdLong)
		s.takes(other)
		waiting := s.locking(locks)
		s.queued(2)
		st, err := locks.Inspect(s.Context(), s.name)
		if err != nil || len(st.Holders) != 1 || st.Waiting != 1 {
			s.Fatalf("Inspect shows %+v, %v", st, err)
		}
		fence, err := locks.Break(s.Context(), s.name, st.Holders[0].Token)
		must.OK(s, err)
		l := s.granted(waiting).lease
		if fence <= st.Holders[0].Token || fence >= l.Token() {
			s.Errorf("the fence between %v and %v is %v", st.Holders[0].Token, l.Token(), fence)
		}
		s.unlock(l)
	}},
	{"broken by an operator", "fencelock", "other", func(s *etcdScene) {
		other, l := s.other(), s.lock(s.client(etcdTTL))
		waiting := other.lock()
		s.queued(2)
		_, err := s.client(etcdTTL).Break(s.Context(), s.name, l.Token())
		must.OK(s, err)
		s.has(waiting)
		await(s, "the notice of the Go holder", l.Context().Done())
		must.OK(s, other.unlock())
	}},
	{"in order of arrival", "both", "both", etcdOrder},
	{"server restarts with its data", "other", "fencelock", func(s *etcdScene) {
		s = s.apart()
		other, locks := s.other(), s.client(etcdLong)
		s.takes(other)
		waiting := s.locking(locks)
		s.queued(2)
		s.cluster.Kill()
		must.OK(s, s.cluster.Start())
		s.queued(2)
		must.OK(s, other.unlock())
		s.unlock(s.granted(waiting).lease)
	}},
	{"server restarts with its data", "fencelock", "other", func(s *etcdScene) {
		s = s.apart()
		other, l := s.other(), s.lock(s.client(etcdLong))
		waiting := other.lock()
		s.queued(2)
		s.cluster.Kill()
		must.OK(s, s.cluster.Start())
		s.queued(2)
		must.OK(s, l.Err())
		s.unlock(l)
		if err := await(s, "the lock of the other", waiting).Err(); err != nil {
			s.Logf("its wait ended with the server: %v", err) // as a call of the lock service does
			other.kill()
		} else {
			must.OK(s, other.unlock())
		}
		s.unlock(s.lock(s.client(etcdLong)))
	}},
	{"same in the store", "both", "both", func(s *etcdScene) {
		other, l := s.other(), s.lock(s.client(etcdTTL))
		waiting := other.lock()
		s.queued(2)
		for i, kv := range s.keys().Kvs {
			if want := fmt.Sprintf("%s%s/%x", etcdPrefix, s.name, kv.Lease); string(kv.Key) != want || kv.Lease == 0 {
				s.Errorf("key %d is %s on lease %x, want %s", i, kv.Key, kv.Lease, want)
			}
		}
		if created := s.keys().Kvs[0].CreateRevision; int64(l.Token()) != created*16384 {
			s.Errorf("the token is %v, and the key was created at %d", l.Token(), created)
		}
		s.unlock(l)
		s.has(waiting)
		must.OK(s, other.unlock())
	}},
	{"leader seen", "fencelock", "other", func(s *etcdScene) {
		other, l := s.other(), s.lock(s.client(etcdTTL))
		if other.leader == nil {
			results.note(row{etcdTitle, "leader seen", "fencelock", "other"}, s.library.title(), impossible)
			s.Skip("it is not an election")
		}
		if got := other.leader(); !strings.Contains(got, `"owner"`) {
			s.Errorf("Leader shows %s, want the record of the Go holder", got)
		}
		s.unlock(l)
	}},
}

// etcdOrder: both sides are granted the lock in the order of the queue, and tokens rise over both.
func etcdOrder(s *etcdScene) {
	holder := s.lock(s.client(etcdLong))
	var waits []func()
	for i := range 2 {
		waiting := s.locking(s.client(etcdLong))
		s.queued(2*i + 2)
		waits = append(waits, func() { s.unlock(s.granted(waiting).lease) })
		other := s.other()
		asked := other.lock()
		s.queued(2*i + 3)
		waits = append(waits, func() { s.has(asked); must.OK(s, other.unlock()) })
	}
	var queue []string
	for _, kv := range s.keys().Kvs {
		queue = append(queue, string(kv.Key))
	}
	s.unlock(holder)
	for i, wait := range waits {
		s.queued(len(queue) - 1 - i)
		if first := string(s.keys().Kvs[0].Key); first != queue[i+1] {
			s.Errorf("key %d in the queue is %s, want %s", i, first, queue[i+1])
		}
		wait()
	}
}

// etcdSlow are the cells that wait for the end of a lease or restart a server. A short run leaves them out.
var etcdSlow = []string{"holder killed", "waiter killed", "holder paused", "waiter paused", "waiter gives up", "server", "broken", "in order", "key deleted by hand"}

// etcdRows are the rows of the page.
func etcdRows() (all []row) {
	for _, c := range etcdCells {
		all = append(all, row{etcdTitle, c.what, c.holder, c.waiter})
	}
	return all
}

// etcdVersions are the columns.
func etcdVersions() (all []string) {
	for _, l := range etcdLibraries {
		all = append(all, l.title())
	}
	return all
}

// TestEtcd plays all cells.
func TestEtcd(t *testing.T) {
	cluster := servers.Test(t, func() (*servers.EtcdCluster, error) { return servers.Etcd(1, servers.QuickEtcd...) })
	for _, l := range etcdLibraries {
		if !*all && l.name != etcdLibraries[0].name {
			continue
		}
		for _, c := range etcdCells {
			if !*all && isOneOf(c.what, etcdSlow) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s: holder %s, waiter %s", l.name, c.what, c.holder, c.waiter), func(t *testing.T) {
				t.Parallel()
				results.noteTest(t, row{etcdTitle, c.what, c.holder, c.waiter}, l.title())
				playEtcd(t, l, cluster, c.do)
			})
		}
	}
}
