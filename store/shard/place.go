// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// Owner returns the name of the member that keeps a lock name, by the list after a change
// if one is under way.
func (s *Store) Owner(name string) string { return s.place(name).to.Name }

// place is where a name is kept before and after a change; the same member if the name
// does not move.
type place struct{ from, to *Member }

func (p place) moves() bool { return p.from != p.to }

// members are those that may keep the name, the later one first.
func (p place) members() []*Member {
	if p.moves() {
		return []*Member{p.to, p.from}
	}
	return []*Member{p.to}
}

func (p place) has(m *Member) bool { return m == p.to || m == p.from }

// place finds the members with the highest scores, by each of the two lists.
func (s *Store) place(name string) place {
	h := digest(name)
	return place{best(s.members, Joins, h), best(s.members, Leaves, h)}
}

// best returns the member with the highest score but for those with a change. Two equal
// scores go to the first by name.
func best(members []Member, but Change, h uint64) *Member {
	var found *Member
	most := uint64(0)
	for i := range members {
		m := &members[i]
		if n := score(m.digest, h); m.Change != but && (found == nil || n > most) {
			found, most = m, n
		}
	}
	return found
}

// movedMark stands between the names of two members in the shard of names that move.
const movedMark = ">"

// Shard implements driver.Store: the member's name, a slash, and the shard there. Names
// that move have separate shards, so that a session of names that do not move
// is opened at once.
func (s *Store) Shard(name string) string {
	p := s.place(name)
	inner := p.to.Name + "/" + p.to.Store.Shard(name)
	if p.moves() {
		return p.from.Name + movedMark + inner
	}
	return inner
}

// parseShard reads what Shard returned; ok is false if a member is unknown.
func (s *Store) parseShard(shard string) (p place, inner string, ok bool) {
	at, inner, _ := strings.Cut(shard, "/")
	from, to, moved := strings.Cut(at, movedMark)
	if !moved {
		to = from
	}
	p = place{s.member(from), s.member(to)}
	return p, inner, p.from != nil && p.to != nil
}

func (s *Store) member(name string) *Member {
	for i := range s.members {
		if s.members[i].Name == name {
			return &s.members[i]
		}
	}
	return nil
}

// digest is a number for a name. SHA-256 because it is the same in every language
// and no client can make names that all end up on one member without some work; the
// hashes of the standard library that are faster are seeded per process, or mix
// too little.
func digest(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint64(sum[:8])
}

// score is how much a member, by its digest, wants a name. It is part of the
// layout: another score would move names between servers under live locks.
// TestScoreIsPinned has its values.
func score(member, name uint64) uint64 { return mix(member ^ name) }

// mix is the finaliser of MurmurHash3 with 64 bits: each bit of the input changes
// about half of the output, so that the order of the scores of two members is as
// good as random for every name.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}
