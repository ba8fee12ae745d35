// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// request is one claim over all nodes. The mutex of the quorumSession guards it.
type request struct {
	b     *quorumSession
	seq   uint64
	claim driver.Claim // as the core sent it last
	need  int
	slots []slot
	// won is set while the claim is granted: with token, on the nodes of counted.
	won       bool
	token     driver.Token
	counted   vote.Set
	gone      bool // withdrawn; it stays until it has gone from every node
	leave     driver.Withdrawal
	broken    bool // an operator broke it; it does not count, and waits to be withdrawn
	confirmed bool // its withdrawal was confirmed to the core
	dropped   bool // it is withdrawn because the core did not ask for it when the session was opened again
	keeping   bool // it was held, and its withdrawal leaves the lock taken
	held      bool // it has won, or was reclaimed: its MinHold counts
	// unconfirmed is set when the session was opened again after a data loss and the
	// core has not asked for the claim since: it does not count, and it stays where it is.
	unconfirmed bool
	known       bool          // attempted or reclaimed since the session was opened again
	round       *round        // in flight
	last        *round        // the latest
	changed     chan struct{} // closed and replaced when something changes; nil without a waiter
}

// slot is the claim on one node: its state, and what the calls need that change it.
type slot struct {
	vote.Slot
	rest time.Duration  // how long the node grants nothing new
	out  driver.Outcome // the last answer, for holders and times
	err  error          // the last error
	// swept is set when the withdrawal in flight is one of a batch that is repeated.
	swept bool
	// awaited is set while a wait for a push is in flight, beside any other call.
	awaited bool
	// left is closed when the claim has gone, or could not be made to go. An attempt
	// for the same name waits for it; otherwise it would find our own claim.
	left chan struct{}
}

func (b *quorumSession) newRequest(seq uint64) *request {
	w := &request{b: b, seq: seq, slots: make([]slot, len(b.links))}
	b.requests[seq] = w
	return w
}

// wakeLocked wakes the calls that wait for the request. w.b.mu must be held.
func (w *request) wakeLocked() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// changeLocked returns a channel that is closed with the next change. w.b.mu must be held.
func (w *request) changeLocked() <-chan struct{} {
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

// group is what a renewal must count for the request.
func (w *request) group() vote.Group { return vote.Group{Nodes: w.counted, Need: w.need} }

// countLocked sets the nodes that count for the request, and whether it has won. w.b.mu must be held.
func (w *request) countLocked(won bool, nodes vote.Set) {
	if w.won {
		if g := w.group(); w.b.groups[g] > 1 {
			w.b.groups[g]--
		} else {
			delete(w.b.groups, g)
		}
	}
	if w.won, w.counted = won, nodes; won {
		w.b.groups[w.group()]++
	}
}

// leftNodeLocked takes note that the node no longer has what it had. w.b.mu must be held.
func (w *request) leftNodeLocked(n int, reset bool) {
	s := &w.slots[n]
	if !s.Busy() {
		w.hasLeftLocked(n)
	}
	counted := w.counted.Has(n)
	*s = slot{Slot: s.SessionLost(reset, w.won || w.unconfirmed, counted), swept: s.swept, awaited: s.awaited, left: s.left}
	if w.won && counted {
		w.countLocked(true, w.counted.Without(n))
	}
	w.wakeLocked()
	if w.confirmed || w.dropped || !w.gone { // one that the core still withdraws stays: a reclaim that was sent before must find it
		w.tidyLocked()
	}
}

// votesLocked is the request as the arithmetic sees it. w.b.mu must be held.
func (w *request) votesLocked() []vote.Vote {
	votes := make([]vote.Vote, len(w.slots))
	for n := range w.slots {
		s := &w.slots[n]
		v := &votes[n]
		switch v.State = s.State(w.b.links[n].freshLocked()); v.State {
		case vote.Yes:
			v.Token = s.Token
			if w.won && w.counted.Has(n) {
				v.Token = w.token // it counts, whatever it granted with
			}
		case vote.No:
			v.After = s.out.PollAfter
		case vote.Rest:
			v.After = s.rest
		}
	}
	return votes
}

// freeLocked reports whether no node has, or may get, anything of the request that has to
// go. w.b.mu must be held.
func (w *request) freeLocked() bool {
	for n := range w.slots {
		if s := &w.slots[n]; s.awaited || !s.Free(w.b.links[n].at.Present()) {
			return false
		}
	}
	return true
}

// tidyLocked keeps nothing of a request that is over. One that waits, where no node has a queue,
// is not over between two attempts: a node on which it was tombstoned, because the
// outcome of an attempt was unknown, refuses it forever under the same try. w.b.mu must be held.
func (w *request) tidyLocked() {
	if w.claim.Queue && !w.gone && w.triedLocked() {
		return
	}
	if !w.won && !w.unconfirmed && !w.broken && w.round == nil && w.freeLocked() && w.b.requests[w.seq] == w {
		delete(w.b.requests, w.seq)
	}
}

// triedLocked reports whether the request came and went on any node. w.b.mu must be held.
func (w *request) triedLocked() bool {
	return slices.ContainsFunc(w.slots, func(s slot) bool { return s.Try > 0 })
}
