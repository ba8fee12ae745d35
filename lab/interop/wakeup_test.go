// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestWakeUps measures how long it takes from an unlock to the return of a waiter's lock: from Java to
// Java, which is the native handoff, from Go to Java and from Java to Go, in turn.
func TestWakeUps(t *testing.T) {
	if !*figures {
		t.Skip("run it with -interop.figures")
	}
	redissonStage(t, newest).play(t, "lock", func(s *scene) { s.wakeUps("interop") })
}

// TestWakeUpsOnZooKeeper is TestWakeUps with Curator.
func TestWakeUpsOnZooKeeper(t *testing.T) {
	if !*figures {
		t.Skip("run it with -interop.figures")
	}
	curatorStage(t, curatorNewest).play(t, "mutex", func(s *scene) { s.wakeUps("interop-curator") })
}

func (s *scene) wakeUps(title string) {
	a, b, locks := s.by(s.kind, false), s.by(s.kind, false), s.client(s.long)
	b.peer = s.process()
	var native, toJava, toGo []time.Duration
	for range 300 {
		s.takes(a)
		waiting := s.asking(b)
		must.OK(s, servers.Await("b waits", b.waits))
		begin := a.Must(a.who, "UNLOCK", a.kind, a.path).Begin
		native = append(native, await(s, "Java", waiting).End.Sub(begin))
		must.OK(s, b.unlock())

		l := s.lock(locks)
		waiting = s.asking(b)
		must.OK(s, servers.Await("b waits", b.waits))
		begin = time.Now()
		s.unlock(l)
		toJava = append(toJava, await(s, "Java", waiting).End.Sub(begin))
		must.OK(s, b.unlock())

		s.takes(a)
		got := s.locking(locks)
		s.watched(1)
		begin = a.Must(a.who, "UNLOCK", a.kind, a.path).Begin
		r := granted(s, got)
		toGo = append(toGo, r.at.Sub(begin))
		s.unlock(r.lease)
	}
	median := func(all []time.Duration) time.Duration { slices.Sort(all); return all[len(all)/2] }
	n, j, g := median(native), median(toJava), median(toGo)
	s.Logf("Java to Java %v, Go to Java %v, Java to Go %v", n, j, g)
	figure.Print(title+"-java-wakeup-vs-native", j.Seconds()/n.Seconds(), figure.AtMost(1.2))
	figure.Print(title+"-go-wakeup-vs-native", g.Seconds()/n.Seconds(), figure.AtMost(1.2))
}
