// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/driver"
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
	// Moving is set if the member is about to come or to go. It is in the list
	// and wins its names, but nothing can be locked under them: Open and SetLimit
	// answer driver.ErrUnavailable. It is the step between two lists of members;
	// without it a process with the old list and one with the new could hold
	// the same lock. docs/shard.md has the recipe.
	Moving bool

	digest uint64
}

// Store is a driver.Store made of several. Make one with New. It is safe for
// concurrent use.
type Store struct {
	members []Member // by name, so that the order they are given in does not matter
	caps    driver.Caps
}

var _ driver.Store = (*Store)(nil)

// Options are the settings of a store; nil stands for the defaults. No setting exists yet.
type Options struct{}

// New returns a store that spreads names over the members by their names. The
// order of the list does not matter. It fails if a name is missing, bad or used
// twice, or if no TTL suits all members, or if they differ in Caps.Queue or
// Caps.Push. It does no I/O. The members' stores stay the caller's.
func New(members []Member, _ *Options) (*Store, error) {
	if len(members) == 0 {
		return nil, errors.New("shard: New needs at least one member")
	}
	s := &Store{members: slices.Clone(members)}
	slices.SortFunc(s.members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	for i := range s.members {
		m := &s.members[i]
		switch {
		case !validName(m.Name):
			return nil, fmt.Errorf("shard: the name of a member must be 1 to %d letters, digits, dots, hyphens and underscores, not %q", maxName, m.Name)
		case i > 0 && m.Name == s.members[i-1].Name:
			return nil, fmt.Errorf("shard: two members are called %q; a name is an identity", m.Name)
		case m.Store == nil:
			return nil, fmt.Errorf("shard: member %q has no store", m.Name)
		}
		m.digest = digest(m.Name)
	}
	var err error
	s.caps, err = weakest(s.members)
	return s, err
}

// validName keeps out what would make a shard's name ambiguous, and what people
// would mistype.
func validName(name string) bool {
	ok := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool { return !ok(r) })
}

// Owner returns the name of the member that keeps a lock name.
func (s *Store) Owner(name string) string { return s.owner(name).Name }

// owner returns the member with the highest score. Two equal scores go to the
// first by name.
func (s *Store) owner(name string) *Member {
	h := digest(name)
	best, most := 0, uint64(0)
	for i := range s.members {
		if n := score(s.members[i].digest, h); n > most {
			best, most = i, n
		}
	}
	return &s.members[best]
}

// moving is the answer to a call that wants something new of a member that moves.
func (m *Member) moving(op string) error {
	return fmt.Errorf("shard: %s: the names of member %q are moving, see Member.Moving: %w", op, m.Name, driver.ErrUnavailable)
}

// Caps implements driver.Store: what every member can do. Fencing and Durability
// are those of the weakest member. Grace is set if some members have a grace period
// and the others are durable: grants then survive a crash on each of them.
func (s *Store) Caps() driver.Caps { return s.caps }

// Shard implements driver.Store: the member's name, a slash, and the shard there.
func (s *Store) Shard(name string) string {
	m := s.owner(name)
	return m.Name + "/" + m.Store.Shard(name)
}

// Open implements driver.Store.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	name, inner, _ := strings.Cut(req.Shard, "/")
	m := s.member(name)
	switch {
	case m == nil:
		return nil, driver.Renewal{}, fmt.Errorf("shard: no member %q: %w", name, driver.ErrRefused)
	case req.TTL < s.caps.MinTTL || s.caps.MaxTTL > 0 && req.TTL > s.caps.MaxTTL:
		// The member itself may allow it; then the same TTL would work for some
		// names and not for others.
		return nil, driver.Renewal{}, fmt.Errorf("shard: TTL %v is not within %v and %v, the bounds of all members: %w",
			req.TTL, s.caps.MinTTL, s.caps.MaxTTL, driver.ErrRefused)
	case ctx.Err() != nil:
		return nil, driver.Renewal{}, fmt.Errorf("shard: open: %w", ctx.Err())
	case m.Moving:
		return nil, driver.Renewal{}, m.moving("open")
	}
	req.Shard = inner
	return m.Store.Open(ctx, req)
}

func (s *Store) member(name string) *Member {
	i := slices.IndexFunc(s.members, func(m Member) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &s.members[i]
}

// Inspect implements driver.Store.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	return s.owner(name).Store.Inspect(ctx, name)
}

// Break implements driver.Store.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	return s.owner(name).Store.Break(ctx, name, token)
}

// SetLimit implements driver.Store. A stored limit does not move with its name.
func (s *Store) SetLimit(ctx context.Context, name string, limit int64) error {
	m := s.owner(name)
	if m.Moving {
		return m.moving("set limit")
	}
	return m.Store.SetLimit(ctx, name, limit)
}
