// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// claimKey is one claim, whatever its session's generation and try on a node.
type claimKey struct {
	session driver.SessionID
	seq     uint64
	kept    bool
	token   driver.Token // of a lock that is kept: it has no session
}

func keyOf(id driver.ClaimID) claimKey {
	return claimKey{session: origin(id.Session), seq: coreSeq(id.Seq)}
}

func keyOfHolder(h driver.Holder) claimKey {
	k := keyOf(h.Claim)
	if h.Kept {
		k.kept, k.token = true, h.Token.Base()
	}
	return k
}

// grantOn is one claim as several nodes show it.
type grantOn struct {
	key   claimKey
	nodes vote.Set
	shown []driver.Holder // one for each of the nodes
}

// merged puts together what nodes show, in the order of the first that shows it.
func merged(lists map[int][]driver.Holder) (all []*grantOn) {
	at := map[claimKey]*grantOn{}
	for _, n := range nodesOf(lists) {
		for _, h := range lists[n] {
			k := keyOfHolder(h)
			g := at[k]
			if g == nil {
				g = &grantOn{key: k}
				at[k] = g
				all = append(all, g)
			}
			g.nodes = g.nodes.With(n)
			g.shown = append(g.shown, h)
		}
	}
	return all
}

// holder is the claim as one holder: with the token most nodes show, the lowest of
// those, because a node that joined late has a higher one.
func (g *grantOn) holder(need int) driver.Holder {
	h := g.shown[0]
	h.Claim.Seq = g.key.seq
	h.Token = common(g.shown, func(h driver.Holder) driver.Token { return h.Token })
	h.Mode = common(g.shown, func(h driver.Holder) driver.Mode { return h.Mode })
	ids := map[driver.SessionID]int{}
	var ages, ends []time.Duration
	for _, s := range g.shown {
		ids[s.Claim.Session]++
		if ids[s.Claim.Session] > ids[h.Claim.Session] {
			h.Claim.Session = s.Claim.Session
		}
		ages, ends = append(ages, s.Age), append(ends, s.EndsIn)
	}
	h.Age = vote.EndsIn(need, ages) // since when enough have it
	h.EndsIn = vote.EndsIn(need, ends)
	return h
}

// common returns the value most have, the lowest of them if there are several.
func common[T any, V cmp.Ordered](list []T, of func(T) V) (best V) {
	count := map[V]int{}
	for _, t := range list {
		count[of(t)]++
	}
	most := 0
	for v, n := range count {
		if n > most || n == most && v < best {
			best, most = v, n
		}
	}
	return best
}

// holdersLocked are those in the way of a request, as far as nodes reported: the one with a
// majority, or else the one on most nodes. w.b.mu must be held.
func (w *request) holdersLocked() (notified []driver.Holder) {
	lists := map[int][]driver.Holder{}
	for n := range w.slots {
		if s := &w.slots[n]; s.err == nil && (s.Standing == vote.Refused || s.Standing == vote.Queued || s.Standing == vote.Resting) {
			lists[n] = s.out.Holders
		}
	}
	all := merged(lists)
	slices.SortStableFunc(all, func(a, b *grantOn) int { return b.nodes.Len() - a.nodes.Len() })
	for i, g := range all {
		if (i == 0 || g.nodes.Len() >= w.b.s.majority()) && len(notified) < driver.MaxHoldersReported {
			notified = append(notified, g.holder(min(g.nodes.Len(), w.b.s.majority())))
		}
	}
	return notified
}

// nodesOf returns the nodes that answered, in order.
func nodesOf[T any](lists map[int]T) []int { return slices.Sorted(maps.Keys(lists)) }
