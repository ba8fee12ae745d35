// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"slices"

	"github.com/fencelock/fencelock/driver"
)

const (
	// MaxPromote is how many claims one transaction grants: each takes up to five
	// operations, and etcd allows 128 unless told otherwise.
	MaxPromote = 20
	// maxWitness is how many keys a decision not to grant is compared with.
	maxWitness = 32
)

// Promotion is a claim that is to be granted.
type Promotion struct {
	*Entry
	// Join is the token of the grant it joins, 0 if it gets one of its own.
	Join driver.Token
}

// Plan is what has to be done to a lock so that nobody waits in vain, and what the
// decision rests on.
type Plan struct {
	// Drop are grants that are over.
	Drop []*Grant
	// Promote are the claims to grant, in order.
	Promote []Promotion
	// Block is the first in line who cannot be granted, nil if there is none or
	// if one of Promote alone keeps it out. Witness are the keys that keep it out.
	Block   *Entry
	Witness []*Entry
	// Tail: nobody is behind those that are seen.
	Tail bool
	// Limit: the stored limit played a part.
	Limit bool
	// Again: not everything could be seen, granted or compared in one step.
	Again bool
}

// Idle says that there is nothing to do.
func (p *Plan) Idle() bool { return len(p.Drop) == 0 && len(p.Promote) == 0 }

// Settle decides who is to be granted: from the front of the line for as long as
// the front fits. Whoever does not fit blocks those behind, so that neither an
// exclusive nor a heavy claim starves; only claims that re-enter a grant may pass,
// because waiting for oneself never ends.
func (s *Snapshot) Settle() *Plan {
	p := &Plan{}
	room := room{limit: s.Limit}
	for _, g := range s.Held {
		if g.Valid() {
			room.add(g, nil)
		} else {
			p.Drop = append(p.Drop, g)
		}
	}
	i := 0
	for ; i < len(s.Line) && len(p.Promote) < MaxPromote; i++ {
		e := s.Line[i]
		if !room.fits(&e.Value) {
			p.Block = e
			break
		}
		p.promote(&room, e)
	}
	if p.Block != nil {
		for _, e := range s.Line[i+1:] {
			if len(p.Promote) < MaxPromote && room.reenters(&e.Value) {
				p.promote(&room, e)
			}
		}
	}
	p.rest(s, &room, i)
	p.Limit = room.asked
	return p
}

func (p *Plan) promote(r *room, e *Entry) {
	join := driver.Token(0)
	if r.reenters(&e.Value) {
		join = r.grants[0].Entry().Token()
	}
	promoted := *e
	promoted.Value.Token = join
	p.Promote = append(p.Promote, Promotion{e, join})
	r.add(&Grant{ID: e.ID, Main: &promoted}, e)
}

// rest finds out what keeps those out who are not granted.
func (p *Plan) rest(s *Snapshot, r *room, seen int) {
	switch {
	case p.Block != nil:
		var enough bool
		if p.Witness, enough = r.witnesses(&p.Block.Value); !enough {
			p.Again = true
		} else if p.Witness == nil {
			p.Block = nil // kept out by what this step grants
		}
	case seen < len(s.Line) || !s.Whole():
		// The last one granted keeps everybody out, or there is more to grant.
		p.Again = !r.closed()
	default:
		// Nobody may have come since: he might fit too, and one that is not in the
		// line yet must not overtake him.
		p.Tail = !r.closed() || slices.ContainsFunc(p.Promote, func(pr Promotion) bool { return pr.Create == 0 })
	}
}

// room is the grants there are, and what still fits.
type room struct {
	limit  int64
	grants []*Grant
	// fresh are those that the plan itself grants.
	fresh []*Grant
	asked bool // the stored limit made a difference
}

func (r *room) add(g *Grant, promoted *Entry) {
	r.grants = append(r.grants, g)
	if promoted != nil {
		r.fresh = append(r.fresh, g)
	}
}

func (r *room) exclusive() bool {
	return slices.ContainsFunc(r.grants, func(g *Grant) bool { return !g.Entry().Value.Shared() })
}

// closed says whether the plan itself grants something that keeps out everybody.
func (r *room) closed() bool {
	return slices.ContainsFunc(r.fresh, func(g *Grant) bool { return !g.Entry().Value.Shared() })
}

// fits says whether a claim can be granted beside what is granted.
func (r *room) fits(v *Value) bool {
	if len(r.grants) == 0 {
		return true // the heaviest takes all of the limit
	}
	if !v.Shared() {
		return r.reenters(v)
	}
	return !r.exclusive() && r.within(v, r.grants)
}

// reenters says whether an exclusive claim may join the grants there are.
func (r *room) reenters(v *Value) bool {
	if v.Reentry == "" || v.Shared() || !r.exclusive() {
		return false
	}
	for _, g := range r.grants {
		if g.Main == nil || g.Main.Value.Reentry != v.Reentry {
			return false
		}
	}
	return true
}

func (r *room) within(v *Value, beside []*Grant) bool {
	if v.Limit == 0 {
		return true
	}
	r.asked = true
	limit := v.Limit
	if r.limit > 0 {
		limit = r.limit
	}
	// A claim heavier than a limit that was lowered takes all of it: it would
	// otherwise stand in everybody's way for ever.
	used := min(v.Weight, limit)
	for _, g := range beside {
		used += min(g.Entry().Value.Weight, limit)
	}
	return used <= limit
}

// witnesses returns keys that suffice to keep a claim out, none if what the plan
// grants does so already. Two who leave at the same time would otherwise each
// believe that the other still keeps the next one out.
func (r *room) witnesses(v *Value) (keys []*Entry, enough bool) {
	var beside []*Grant
	out := func() bool {
		if len(beside) == 0 {
			return false
		}
		with := room{limit: r.limit, grants: beside}
		return !with.fits(v)
	}
	beside = append(beside, r.fresh...)
	for i := len(r.grants) - 1; i >= 0 && !out(); i-- {
		if g := r.grants[i]; !slices.Contains(r.fresh, g) {
			beside = append(beside, g)
			keys = append(keys, g.Entry())
		}
	}
	return keys[:min(len(keys), maxWitness)], len(keys) <= maxWitness
}
