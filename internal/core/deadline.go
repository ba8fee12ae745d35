// SPDX-License-Identifier: Apache-2.0

package core

import (
	"container/heap"
	"time"

	"github.com/fencelock/fencelock/internal/clock"
)

// suspendTick is how often the deadline is compared with the clock even if
// nothing is due: timers stand still while the machine is suspended.
const suspendTick = 500 * time.Millisecond

// watch runs on the timer: it ends what is due and sets the timer again.
func (s *session) watch() {
	now := s.c.clock.Now()
	if now >= clock.Instant(s.deadline.Load()) {
		s.end(lost(ErrUnrenewed))
		return
	}
	s.sh.mu.Lock()
	var ended, over []*grant
	for len(s.deadlines) > 0 && s.deadlines[0].nextCheck <= now {
		g := heap.Pop(&s.deadlines).(*grant)
		if g.lingerEnd != 0 {
			g.nextCheck = 0  // an unlock that began before must not let it linger: no check would follow
			g.recallLocked() // one that is in use is given back by its unlock
		} else if g.state == grantHeld {
			// Notified now, withdrawn a margin later, as the store would end it.
			g.state = grantExpired
			ended = append(ended, g)
			g.nextCheck = g.nextCheck.Add(g.margin(s.c.opts.Margin))
			heap.Push(&s.deadlines, g)
		} else {
			over = append(over, g)
		}
	}
	if s.state.live() {
		s.timer.Reset(s.untilCheckLocked(now))
	}
	s.sh.mu.Unlock()
	if now >= clock.Instant(s.renewAt.Load()) {
		s.renewNow() // the loop's timer stood still in a suspend
	}
	loseAll(ended, over, lost(ErrExpired), 0)
}

// untilCheckLocked returns how long it is until watch must run. sh.mu must be held.
func (s *session) untilCheckLocked(now clock.Instant) time.Duration {
	d := min(clock.Instant(s.deadline.Load()).Sub(now), suspendTick)
	if len(s.deadlines) > 0 {
		d = min(d, s.deadlines[0].nextCheck.Sub(now))
	}
	return max(d, 0)
}

// deadlineHeap is a heap of grants by their fixed end, or that of their lingering: with it a million of them
// need one timer.
type deadlineHeap []*grant

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].nextCheck < h[j].nextCheck }
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = int32(i), int32(j)
}

// Push implements heap.Interface.
func (h *deadlineHeap) Push(x any) {
	g := x.(*grant)
	g.heapIndex = int32(len(*h))
	*h = append(*h, g)
}

// Pop implements heap.Interface.
func (h *deadlineHeap) Pop() any {
	old := *h
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return g
}
