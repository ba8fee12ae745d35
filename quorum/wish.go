// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/quorum/internal/vote"
)

// wish is one claim over all nodes. Guarded by the body's mutex.
type wish struct {
	b     *body
	seq   uint64
	claim driver.Claim // as the core sent it last
	need  int
	slots []slot
	// won is set while the claim is granted: with token, on the nodes of counted.
	won     bool
	token   driver.Token
	counted vote.Set
	gone    bool // withdrawn; it stays until every node is settled
	leave   driver.Withdrawal
	broken  bool // an operator broke it; it does not count, and waits to be withdrawn
	parted  bool // its withdrawal was confirmed to the core
	// limbo is set when the session was opened again after a loss and nobody has
	// asked for the claim since: it does not count, and it stays where it is.
	limbo   bool
	known   bool          // attempted or reclaimed since the session was opened again
	round   *round        // under way
	last    *round        // the latest
	changed chan struct{} // closed and replaced when something changes; nil if nobody waits
}

// slot is the claim on one node.
type slot struct {
	state place
	token driver.Token // of a grant
	rest  time.Duration
	out   driver.Outcome // the last answer, for holders and times
	err   error
	try   uint8
	busy  bool // a call is under way
	// unsure is set when an attempt may be on its way or may have been granted.
	unsure bool
	// leaving is set when the claim must go from this node.
	leaving bool
	going   bool // its withdrawal is under way
	// left is closed when the claim has gone, or could not be made to go. An attempt
	// for the same name waits for it; otherwise it would find our own claim.
	left  chan struct{}
	found driver.Removed
	had   bool // it was granted there when it was withdrawn
	// was is the token of a grant on a node that forgot, until it is reclaimed.
	was     driver.Token
	counted bool // it did before the node forgot
	awaited bool // a wait for a push is under way
	denied  bool // the node refused the claim for good: buried, or its grant is over
	wanted  bool // ask when what is under way has ended
}

// place is what is known of a claim on a node.
type place uint8

const (
	absent place = iota
	granted
	inLine
	refused
	resting
	unreached
)

func (b *body) newWish(seq uint64) *wish {
	w := &wish{b: b, seq: seq, slots: make([]slot, len(b.links))}
	b.wishes[seq] = w
	delete(b.mended, seq)
	return w
}

// wake tells whoever waits for the wish. Wants mu.
func (w *wish) wake() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// change returns a channel that is closed with the next change. Wants mu.
func (w *wish) change() <-chan struct{} {
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

// group is what a renewal must count for the wish.
func (w *wish) group() vote.Group { return vote.Group{Nodes: w.counted, Need: w.need} }

// count sets the nodes that count for the wish, and whether it has won. Wants mu.
func (w *wish) count(won bool, nodes vote.Set) {
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

// leftNode takes note that the node no longer has what it had. Wants mu.
func (w *wish) leftNode(n int, forgot bool) {
	s := &w.slots[n]
	old := *s
	if !old.busy {
		w.hasLeft(n)
		old.left = nil
	}
	*s = slot{try: old.try, busy: old.busy, going: old.going, left: old.left, leaving: old.leaving && forgot, unsure: old.unsure && forgot, awaited: old.awaited}
	if forgot && old.state == granted && (w.won || w.limbo) {
		s.was, s.counted = old.token, old.counted || w.counted.Has(n)
	}
	if w.won && w.counted.Has(n) {
		w.count(true, w.counted.Without(n))
	}
	w.wake()
}

// votes is the wish as the arithmetic sees it. Wants mu.
func (w *wish) votes() []vote.Vote {
	votes := make([]vote.Vote, len(w.slots))
	for n := range w.slots {
		s := &w.slots[n]
		v := &votes[n]
		switch {
		case s.busy:
			v.State = vote.Open
		case s.state == granted && !s.leaving && w.b.links[n].fresh():
			*v = vote.Vote{State: vote.Yes, Token: s.token}
			if w.won && w.counted.Has(n) {
				v.Token = w.token // it counts, whatever it granted with
			}
		case s.state == inLine || s.state == refused:
			*v = vote.Vote{State: vote.No, After: s.out.LookAfter}
		case s.state == resting:
			*v = vote.Vote{State: vote.Rest, After: s.rest}
		default:
			v.State = vote.Out
		}
	}
	return votes
}

// settled says whether no node has, or may get, anything of the wish that has to
// go. Wants mu.
func (w *wish) settled() bool {
	for n := range w.slots {
		if s := &w.slots[n]; s.busy || s.awaited || w.b.links[n].keeps() && (s.leaving || s.unsure || s.state == granted || s.state == inLine) {
			return false
		}
	}
	return true
}

// tidy keeps nothing of a wish that is over. Wants mu.
func (w *wish) tidy() {
	if !w.won && !w.limbo && !w.broken && w.round == nil && w.settled() && w.b.wishes[w.seq] == w {
		delete(w.b.wishes, w.seq)
	}
}

// full says whether every node counts. Wants mu.
func (w *wish) full() bool { return w.counted == w.b.all() }
