// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
)

// TestWakeUps measures how long it takes from an unlock to the return of a waiter's lock: from Java to
// Java, which is the native handoff, from Go to Java and from Java to Go, in turn.
func TestWakeUps(t *testing.T) {
	if !*figures {
		t.Skip("run it with -interop.figures")
	}
	stage := newStage(t, newest)
	stage.play(t, "lock", func(s *scene) {
		a, b, locks := s.java(), s.mortal(), s.waiter(long)
		var native, toJava, toGo []time.Duration
		for range 300 {
			a.Must("h", "LOCK", s.kind, s.name, long.Milliseconds())
			waiting := b.Ask("w", "LOCK", s.kind, s.name, -1)
			s.waits(b, "w")
			begin := a.Must("h", "UNLOCK", s.kind, s.name).Begin
			native = append(native, await(s, "Java", waiting).End.Sub(begin))
			b.Must("w", "UNLOCK", s.kind, s.name)

			l := s.lock(locks.Client)
			waiting = b.Ask("w", "LOCK", s.kind, s.name, -1)
			s.waits(b, "w")
			begin = time.Now()
			s.unlock(l)
			toJava = append(toJava, await(s, "Java", waiting).End.Sub(begin))
			b.Must("w", "UNLOCK", s.kind, s.name)

			a.Must("h", "LOCK", s.kind, s.name, long.Milliseconds())
			got := locks.locking(s, s.name, locks.Mutex(s.name).Lock)
			begin = a.Must("h", "UNLOCK", s.kind, s.name).Begin
			r := s.granted(got)
			toGo = append(toGo, r.at.Sub(begin))
			s.unlock(r.lease)
		}
		median := func(all []time.Duration) time.Duration { slices.Sort(all); return all[len(all)/2] }
		n, j, g := median(native), median(toJava), median(toGo)
		t.Logf("Java to Java %v, Go to Java %v, Java to Go %v", n, j, g)
		figure.Print("interop-java-wakeup-vs-native", j.Seconds()/n.Seconds(), figure.AtMost(1.2))
		figure.Print("interop-go-wakeup-vs-native", g.Seconds()/n.Seconds(), figure.AtMost(1.2))
	})
}
