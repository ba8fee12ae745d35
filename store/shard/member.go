// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/enum"
)

// maxName bounds the name of a member.
const maxName = 64

// Member is one of the stores that names are spread over.
type Member struct {
	// Name is the member's identity: which names it keeps depends on it, and on
	// nothing else. It is 1 to 64 letters, digits, dots, hyphens and underscores.
	// It must be the same in every process and never change.
	Name string
	// Store keeps the names of this member. It must not be shared with another
	// member.
	Store driver.Store
	// Change is set while processes with two lists run side by side: Joins on a
	// member that the earlier list does not have, Leaves on one that the next list
	// will not have. docs/scaling.md has the steps.
	Change Change

	digest uint64
}

// Change is what happens to a member while the list changes.
type Change uint8

const (
	// Stays: the member is in the list before and after.
	Stays Change = iota
	// Joins: the member takes the names that it wins as soon as no process uses the
	// list without it.
	Joins
	// Leaves: the names of the member go to the others as soon as no process uses
	// the list with it.
	Leaves
)

// String returns the change in lower case.
func (c Change) String() string { return enum.String("change", c, "stays", "joins", "leaves") }

// checked returns the members by name, with their digests, or what is wrong with them.
func checked(given []Member) ([]Member, error) {
	if len(given) == 0 {
		return nil, errors.New("shard: New needs at least one member")
	}
	members := slices.Clone(given)
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	changes := false
	for i := range members {
		m := &members[i]
		_, nested := m.Store.(*Store)
		switch {
		case !validName(m.Name):
			return nil, fmt.Errorf("shard: the name of a member must be 1 to %d letters, digits, dots, hyphens and underscores, not %q", maxName, m.Name)
		case i > 0 && m.Name == members[i-1].Name:
			return nil, fmt.Errorf("shard: two members are called %q; a name is an identity", m.Name)
		case m.Store == nil:
			return nil, fmt.Errorf("shard: member %q has no store", m.Name)
		case nested:
			return nil, fmt.Errorf("shard: member %q is itself a shard; put its members into this list", m.Name)
		case m.Change > Leaves:
			return nil, fmt.Errorf("shard: member %q: unknown change %d; use Stays, Joins or Leaves", m.Name, m.Change)
		}
		changes = changes || m.Change != Stays
		m.digest = digest(m.Name)
	}
	for _, m := range members {
		if changes && !m.Store.Caps().Reentry {
			return nil, fmt.Errorf("shard: member %q cannot keep the list of members (its Caps lack Reentry), so no change can be checked; "+
				"stop all processes, wait one TTL and start them with the new list: %w", m.Name, driver.ErrUnsupported)
		}
	}
	if len(after(members)) == 0 || len(before(members)) == 0 {
		return nil, errors.New("shard: every member joins, or every member leaves; at least one must stay")
	}
	return members, nil
}

// validName keeps out what would make a shard's name ambiguous, and what people
// would mistype.
func validName(name string) bool {
	ok := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool { return !ok(r) })
}

// before returns the names of the members before the change, after those after it.
func before(members []Member) list { return without(members, Joins) }

func after(members []Member) list { return without(members, Leaves) }

func without(members []Member, c Change) (l list) {
	for _, m := range members {
		if m.Change != c {
			l = append(l, m.Name)
		}
	}
	return l
}

// list is the names of the members of one list, in order.
type list []string

// id identifies the list in a marker.
func (l list) id() string {
	sum := sha256.Sum256([]byte(strings.Join(l, ",")))
	return hex.EncodeToString(sum[:8])
}

// maxListed bounds the text of a list, which is kept with each marker.
const maxListed = 400

func (l list) String() string {
	text := strings.Join(l, ", ")
	if len(text) > maxListed {
		text = fmt.Sprintf("%s … (%d members)", text[:maxListed], len(l))
	}
	return text
}
