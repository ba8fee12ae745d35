// SPDX-License-Identifier: Apache-2.0

package vote

import "github.com/fencelock/fencelock/internal/enum"

// Group is all claims that are held on the same nodes and need as many of them.
type Group struct {
	Nodes Set
	Need  int
}

// Renewal is the result of a round of keep-alives.
type Renewal uint8

const (
	// Unsettled: too early to say.
	Unsettled Renewal = iota
	// Renewed: a majority kept the session, and enough of the nodes of every claim
	// did.
	Renewed
	// Short: a majority kept the session or still may, but some claim cannot have
	// enough nodes any more.
	Short
	// Failed: a majority cannot be had.
	Failed
)

// String returns the word in lower case.
func (r Renewal) String() string {
	return enum.String("renewal", r, "unsettled", "renewed", "short", "failed")
}

// Renew counts a round of keep-alives: kept are the nodes that answered that the
// session lives, open those that have not answered. It is not enough that a
// majority keeps the session: a claim that is on nodes a, b and c of five is not
// kept by c, d and e.
func Renew(n int, groups []Group, kept, open Set) Renewal {
	all := kept | open
	if all.Len() < Majority(n) {
		return Failed
	}
	decided := kept.Len() >= Majority(n)
	for _, g := range groups {
		if (g.Nodes & all).Len() < g.Need {
			return Short
		}
		decided = decided && (g.Nodes&kept).Len() >= g.Need
	}
	if decided {
		return Renewed
	}
	return Unsettled
}
