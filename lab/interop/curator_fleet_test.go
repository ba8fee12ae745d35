// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
)

// TestMixedFleetOnZooKeeper: processes of both sides compete, and are killed and closed while they hold
// or wait. No two hold a lock at the same time.
func TestMixedFleetOnZooKeeper(t *testing.T) {
	byHand(t)
	for _, format := range []struct{ title, kind string }{{"InterProcessMutex", "mutex"}, {"InterProcessReadWriteLock", "readwrite"}} {
		t.Run(format.title, func(t *testing.T) {
			t.Parallel()
			newTreeStage(t, curatorNewest).play(t, format.kind, func(s *treeScene) {
				name := s.path[1:]
				f := &mixedFleet{
					T: t, history: &history{t: t, until: time.Now().Add(*torture)}, kind: s.kind,
					names:   []string{name + "-a", name + "-b", name + "-c"},
					foreign: func(name string) string { return "/" + name },
					locks: func() *fencelock.Client {
						locks, err := fencelock.New(s.store(treeOptions), &fencelock.Options{TTL: ttl, Patience: patience})
						must.OK(s, err)
						return locks
					},
					java: func() *peer { return &peer{startCurator(s, s.version, s.ensemble.Addrs(), treeTimeout), ""} },
				}
				f.run(format.title)
			})
		})
	}
}

// TestWakeUpsOnZooKeeper measures how long it takes from an unlock to the return of a waiter's lock:
// from Java to Java, which is the native handoff, from Go to Java and from Java to Go, in turn.
func TestWakeUpsOnZooKeeper(t *testing.T) {
	if !*figures {
		t.Skip("run it with -interop.figures")
	}
	newTreeStage(t, curatorNewest).play(t, "mutex", func(s *treeScene) {
		a, b, locks := s.java(), s.mortal(), s.client(treeLong)
		var native, toJava, toGo []time.Duration
		for range 300 {
			a.Must("h", "LOCK", s.kind, s.path)
			waiting := b.Ask("w", "LOCK", s.kind, s.path)
			s.waits(b, "w")
			begin := a.Must("h", "UNLOCK", s.kind, s.path).Begin
			native = append(native, await(s, "Java", waiting).End.Sub(begin))
			b.Must("w", "UNLOCK", s.kind, s.path)

			l := s.lock(locks)
			waiting = b.Ask("w", "LOCK", s.kind, s.path)
			s.waits(b, "w")
			begin = time.Now()
			s.unlock(l)
			toJava = append(toJava, await(s, "Java", waiting).End.Sub(begin))
			b.Must("w", "UNLOCK", s.kind, s.path)

			a.Must("h", "LOCK", s.kind, s.path)
			got := s.locking(locks)
			s.queued(2)
			s.watched(s.first(), 1)
			begin = a.Must("h", "UNLOCK", s.kind, s.path).Begin
			r := s.granted(got)
			toGo = append(toGo, r.at.Sub(begin))
			s.unlock(r.lease)
		}
		median := func(all []time.Duration) time.Duration { slices.Sort(all); return all[len(all)/2] }
		n, j, g := median(native), median(toJava), median(toGo)
		t.Logf("Java to Java %v, Go to Java %v, Java to Go %v", n, j, g)
		figure.Print("interop-curator-java-wakeup-vs-native", j.Seconds()/n.Seconds(), figure.AtMost(1.2))
		figure.Print("interop-curator-go-wakeup-vs-native", g.Seconds()/n.Seconds(), figure.AtMost(1.2))
	})
}
