// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"container/heap"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
)

// grant is a claim that the store granted to this client. Leases stand on it:
// one at a time, or several that re-entered or read together. Guarded by the
// shard's mutex.
type grant struct {
	s      *session
	claim  driver.Claim
	token  Token // the store's; leases add an index
	ln     *line // whose exclusive it is, nil if it is none
	leases *Lease
	// prev and next link the grants of the session.
	prev, next *grant
	granted    clock.Instant
	ends       clock.Instant      // zero, or the end by FixedLease or MaxHold
	due        clock.Instant      // when the watch must see to that
	parting    *driver.Withdrawal // how it was given back, if it was
	endsAt     int32              // place in the session's heap
	index      uint8              // of the last token handed out
	passes     uint8              // local hand-overs so far
	unsure     bool               // an attempt may still be on its way
	told       bool               // its own end has come
	gone       bool               // no longer in the session's list
}

// attach puts the grant into its session. Wants sh.mu.
func (g *grant) attach() {
	g.next = g.s.grants
	if g.next != nil {
		g.next.prev = g
	}
	g.s.grants = g
	if g.ends != 0 {
		g.due = g.ends
		heap.Push(&g.s.ends, g)
		g.s.timer.Reset(g.s.untilCheck(g.s.c.clock.Now()))
	}
}

// detach takes it out and says whether it was in. Wants sh.mu.
func (g *grant) detach() bool {
	if g.gone || !g.s.open {
		return false
	}
	g.gone = true
	if g.prev == nil {
		g.s.grants = g.next
	} else {
		g.prev.next = g.next
	}
	if g.next != nil {
		g.next.prev = g.prev
	}
	if g.ends != 0 && int(g.endsAt) < len(g.s.ends) && g.s.ends[g.endsAt] == g {
		heap.Remove(&g.s.ends, int(g.endsAt))
	}
	g.s.idleSince = g.s.c.clock.Sent()
	return true
}

// nextToken returns the token of the next lease on the grant. Wants sh.mu.
func (g *grant) nextToken() Token {
	t := g.token + Token(g.index)
	g.index++
	if g.s.c.caps.Fencing == driver.NoFencing {
		return 0 // an index alone would look like a token to a guard
	}
	return t
}

// tell ends the context of every lease with the cause, and returns them besides
// those told before: events come when all are told.
func (g *grant) tell(cause error, told []*Lease) []*Lease {
	g.s.sh.mu.Lock()
	leases := g.leases
	g.leases = nil
	for l := leases; l != nil; l = l.next {
		l.state.Store(leaseLost)
		l.cause = cause
	}
	g.s.sh.mu.Unlock()
	watched := g.s.c.watched()
	for l := leases; l != nil; {
		next := l.next
		l.next = nil
		l.cancelContext(cause)
		if watched {
			told = append(told, l)
		}
		l = next
	}
	return told
}

// vacate makes room in the line after the grant has ended without an unlock.
func (g *grant) vacate() {
	sh := g.s.sh
	sh.mu.Lock()
	var stale *pending
	if ln := g.ln; ln != nil && ln.exclusive == g {
		ln.exclusive = nil
		stale = sh.baton(ln)
	}
	sh.mu.Unlock()
	stale.withdraw()
}

// loseAll ends grants whose session lives on: at their own end, broken, or not
// reclaimed. The holders of told are told first, then those of over are
// withdrawn, which may let somebody else in, and events come last.
func loseAll(told, over []*grant, cause error) {
	var leases []*Lease
	for _, g := range told {
		leases = g.tell(cause, leases)
	}
	for _, g := range over {
		g.s.sh.mu.Lock()
		ok := g.detach()
		if ok {
			g.s.sweepUp(driver.Withdrawal{Seq: g.claim.Seq, Name: g.claim.Name, Bury: g.unsure})
		}
		g.s.sh.mu.Unlock()
		if ok {
			g.vacate()
		}
	}
	for _, l := range leases {
		l.emit(LeaseLost, cause)
	}
}

// margin is what a lease with an end of its own has between being told and the
// end: as much as any, but at most a tenth of its length.
func (g *grant) margin(most time.Duration) time.Duration { return min(most, g.claim.Terms.MaxHold/10) }

// endHeap is a heap of grants by their own end: with it a million fixed leases
// need one timer.
type endHeap []*grant

func (h endHeap) Len() int           { return len(h) }
func (h endHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h endHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].endsAt, h[j].endsAt = int32(i), int32(j)
}

// Push implements heap.Interface.
func (h *endHeap) Push(x any) {
	g := x.(*grant)
	g.endsAt = int32(len(*h))
	*h = append(*h, g)
}

// Pop implements heap.Interface.
func (h *endHeap) Pop() any {
	old := *h
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return g
}
