// SPDX-License-Identifier: Apache-2.0

package vote

import (
	"math/bits"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/enum"
)

// State is what is known of one node's vote.
type State uint8

const (
	// Open: it was asked and has not answered.
	Open State = iota
	// Yes: it granted the claim, with a token.
	Yes
	// No: another claim is in the way there.
	No
	// Rest: it grants nothing new because it lost its data.
	Rest
	// Out: it cannot be reached, or what it answers does not count.
	Out
)

// Vote is one node's vote.
type Vote struct {
	State State
	// Token is the token of a Yes.
	Token driver.Token
	// After is when a No or a Rest may change, 0 if unknown.
	After time.Duration
}

// Set is a set of nodes, one bit each.
type Set uint64

// Len returns how many nodes are in the set.
func (s Set) Len() int { return bits.OnesCount64(uint64(s)) }

// Has reports whether a node is in the set.
func (s Set) Has(node int) bool { return s&(1<<node) != 0 }

// With returns the set and one more node.
func (s Set) With(node int) Set { return s | 1<<node }

// Without returns the set without a node.
func (s Set) Without(node int) Set { return s &^ (1 << node) }

// Majority returns how many of n nodes any two sets of which share a node.
func Majority(n int) int { return n/2 + 1 }

// Needed returns how many of n nodes must grant a claim. A majority is enough to
// keep two claims apart, because any two majorities share a node. It is not
// enough to count: of three permits with a limit of two each could have another
// two of three nodes, and no node would see more than two. So a claim with a
// limit needs every node.
func Needed(n int, limited bool) int {
	if limited {
		return n
	}
	return Majority(n)
}

// Kind is the result of a count of votes.
type Kind uint8

const (
	// Pending: too early to say.
	Pending Kind = iota
	// Near: enough nodes granted, with different tokens, but those still open may
	// make the agreement: worth a moment.
	Near
	// Won: enough nodes granted with one token.
	Won
	// Split: enough nodes granted, and never with one token: they must be lifted
	// to a common one.
	Split
	// Lost: too few can still grant.
	Lost
)

// String returns the kind in lower case.
func (k Kind) String() string {
	return enum.String("kind", k, "pending", "near", "won", "split", "lost")
}

// Verdict is the result of a count of votes.
type Verdict struct {
	Kind Kind
	// Token is the winning one, or for a split one at least as high as all votes.
	Token driver.Token
	// Nodes are those that granted with the winning token, or for a split those
	// that granted.
	Nodes Set
}

// Decide counts.
func Decide(need int, votes []Vote) Verdict {
	var yes, open Set
	var top driver.Token
	for i, v := range votes {
		switch v.State {
		case Yes:
			yes = yes.With(i)
			top = max(top, v.Token)
		case Open:
			open = open.With(i)
		}
	}
	if yes.Len()+open.Len() < need {
		return Verdict{Kind: Lost}
	}
	best := 0
	for i := range votes {
		if !yes.Has(i) {
			continue
		}
		same := agreeing(votes, votes[i].Token)
		if same.Len() >= need {
			return Verdict{Kind: Won, Token: votes[i].Token, Nodes: same}
		}
		best = max(best, same.Len())
	}
	switch {
	case yes.Len() < need:
		return Verdict{Kind: Pending}
	case best+open.Len() >= need:
		return Verdict{Kind: Near, Token: top, Nodes: yes}
	}
	return Verdict{Kind: Split, Token: top, Nodes: yes}
}

// agreeing returns the nodes that granted with a token.
func agreeing(votes []Vote, token driver.Token) (nodes Set) {
	for i, v := range votes {
		if v.State == Yes && v.Token == token {
			nodes = nodes.With(i)
		}
	}
	return nodes
}

// PollAfter returns when a claim that has not won may: when as many of those in
// the way as are missing must have ended. 0 means that it is unknown. resting means
// that it is for new memories that nothing can be granted now.
func PollAfter(need int, votes []Vote) (after time.Duration, resting bool) {
	yes, rest := 0, 0
	var times []time.Duration
	for _, v := range votes {
		switch v.State {
		case Yes:
			yes++
		case Rest:
			rest++
		}
		if (v.State == No || v.State == Rest) && v.After > 0 {
			times = append(times, v.After)
		}
	}
	resting = len(votes)-rest < need
	missing := need - yes
	if missing <= 0 || missing > len(times) {
		return 0, resting
	}
	slices.Sort(times)
	return times[missing-1], resting
}

// EndsIn returns when fewer than need of the nodes still keep something, from the
// times after which each of them ends it.
func EndsIn(need int, ends []time.Duration) time.Duration {
	if len(ends) < need {
		return 0
	}
	sorted := slices.Clone(ends)
	slices.Sort(sorted)
	return sorted[len(sorted)-need]
}

// Skews returns how far each clock is from the median of all, and how far the two
// most distant ones are apart. With no clock there is nothing to say.
func Skews(offsets []time.Duration) (from []time.Duration, spread time.Duration) {
	if len(offsets) == 0 {
		return nil, 0
	}
	sorted := slices.Clone(offsets)
	slices.Sort(sorted)
	median := sorted[len(sorted)/2]
	from = make([]time.Duration, len(offsets))
	for i, o := range offsets {
		from[i] = o - median
	}
	return from, sorted[len(sorted)-1] - sorted[0]
}

// Bounds of the distance between clocks, as shares of the quarantine.
const (
	// alarmShare of the quarantine is worth an alarm.
	alarmShare = 10
	// countShare of the quarantine from the median and a node does not count. Two
	// nodes that count are then less than a quarantine apart, which is what token
	// order over a data loss needs.
	countShare = 2
)

// Alarming reports whether clocks that are so far apart are worth an alarm.
func Alarming(spread, quarantine time.Duration) bool { return spread > quarantine/alarmShare }

// Counts reports whether a node whose clock is so far from the median counts.
func Counts(from, quarantine time.Duration) bool { return max(from, -from) < quarantine/countShare }
