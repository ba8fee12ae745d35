// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// TestWakeUps measures how long it takes from an unlock to the return of a waiter's lock: from Java to
// Java, which is the native handoff, from Go to Java and from Java to Go, in turn.
func TestWakeUps(t *testing.T) {
	if !*figures {
		t.Skip("run it with -interop.figures")
	}
	stage := newStage(t, newest)
	stage.play(t, "lock", func(s *scene) {
		a, b, locks := s.java(), s.mortal(), s.client(long)
		var native, toJava, toGo []time.Duration
		for range 300 {
			a.Must("h", "LOCK", s.kind, s.name, long.Milliseconds())
			waiting := b.Ask("w", "LOCK", s.kind, s.name, -1)
			s.waits(b, "w")
			begin := a.Must("h", "UNLOCK", s.kind, s.name).Begin
			native = append(native, await(s, "Java", waiting).End.Sub(begin))
			b.Must("w", "UNLOCK", s.kind, s.name)

			l := s.lock(locks)
			waiting = b.Ask("w", "LOCK", s.kind, s.name, -1)
			s.waits(b, "w")
			begin = time.Now()
			s.unlock(l)
			toJava = append(toJava, await(s, "Java", waiting).End.Sub(begin))
			b.Must("w", "UNLOCK", s.kind, s.name)

			a.Must("h", "LOCK", s.kind, s.name, long.Milliseconds())
			got := s.locking(locks)
			s.listened(1)
			time.Sleep(20 * time.Millisecond) // its second attempt, after which it waits
			begin = a.Must("h", "UNLOCK", s.kind, s.name).Begin
			r := s.granted(got)
			toGo = append(toGo, r.at.Sub(begin))
			s.unlock(r.lease)
		}
		median := func(all []time.Duration) time.Duration { slices.Sort(all); return all[len(all)/2] }
		n, j, g := median(native), median(toJava), median(toGo)
		t.Logf("Java to Java %v, Go to Java %v, Java to Go %v", n, j, g)
		fmt.Printf("figure interop-java-wakeup-vs-native %.2f <=1.2\n", j.Seconds()/n.Seconds())
		fmt.Printf("figure interop-go-wakeup-vs-native %.2f <=1.2\n", g.Seconds()/n.Seconds())
	})
}

// waits waits until a Java thread has begun to wait for a message.
func (s *scene) waits(java *peer, actor string) {
	s.Helper()
	must(s, servers.Await(actor+" waits", func() bool { return java.Do(actor, "WAITS", s.kind, s.name).Word == "ok" }))
}
