// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"slices"

	"github.com/fencelock/fencelock/driver"
)

const (
	// MaxPromote is how many claims one transaction grants: each takes up to five
	// operations, and etcd allows 128 by default.
	MaxPromote = 20
	// maxWitness is how many keys a decision not to grant is compared with.
	maxWitness = 32
)

// Promotion is a claim that is to be granted.
type Promotion struct {
	*Entry
	// Join is the token of the grant that the claim joins. It is 0 if the claim gets a
	// new token or joins a grant of the same plan, whose revision is not known yet.
	Join driver.Token
	// Index is the promotion of the plan whose token it has: its own, or the one
	// that it joins.
	Index int
}

// Plan is what has to be done to a lock so that no claim waits unnecessarily, and what
// the decision rests on.
type Plan struct {
	// Drop are grants that are over.
	Drop []*Grant
	// Promote are the claims to grant, in order.
	Promote []Promotion
	// Block is the first claim in the queue that cannot be granted. It is nil if all can
	// be, or if a claim of Promote alone keeps it out. Witness are the keys that keep it
	// out.
	Block   *Entry
	Witness []*Entry
	// Tail: no claim is behind those that are seen.
	Tail bool
	// Limit: the stored limit played a part.
	Limit bool
	// Again: not everything could be seen, granted or compared in one step.
	Again bool
}

// Idle reports whether there is nothing to do.
func (p *Plan) Idle() bool { return len(p.Drop) == 0 && len(p.Promote) == 0 }

// Plan decides which claims to grant: from the front of the queue for as long as the
// front fits. A claim that does not fit blocks those behind, so that neither an
// exclusive nor a heavy claim starves; only claims that re-enter a grant may pass,
// because waiting for oneself never ends.
func (s *Snapshot) Plan() *Plan {
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
	for ; i < len(s.Queue) && len(p.Promote) < MaxPromote; i++ {
		e := s.Queue[i]
		if !room.fits(&e.Value) {
			p.Block = e
			break
		}
		p.promote(&room, e)
	}
	if p.Block != nil {
		for _, e := range s.Queue[i+1:] {
			if len(p.Promote) < MaxPromote && room.reenters(&e.Value) {
				p.promote(&room, e)
			}
		}
	}
	p.rest(s, &room, i)
	p.Limit = room.asked
	return p
}

// Reenters reports whether a claim joins what is granted. The queue plays no part in it.
func (s *Snapshot) Reenters(v *Value) bool {
	room := room{limit: s.Limit}
	for _, g := range s.Valid() {
		room.add(g, nil)
	}
	return room.reenters(v)
}

func (p *Plan) promote(r *room, e *Entry) {
	pr := Promotion{Entry: e, Index: len(p.Promote)}
	switch {
	case !r.reenters(&e.Value):
	case len(r.fresh) > 0 && r.fresh[0] == r.grants[0]:
		pr.Index = 0
	default:
		pr.Join = r.grants[0].Entry().Token()
	}
	var promoted struct { // one allocation
		g Grant
		e Entry
	}
	n := &promoted
	n.e = *e
	n.e.Value.Token = pr.Join
	n.g = Grant{ID: e.ID, Main: &n.e}
	p.Promote = append(p.Promote, pr)
	r.add(&n.g, e)
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
	case seen < len(s.Queue) || !s.Whole():
		// The last one granted keeps all others out, or there is more to grant.
		p.Again = !r.closed()
	default:
		// No claim may have come since: it might fit too, and one that is not in the
		// queue yet must not overtake it.
		p.Tail = !r.closed() || slices.ContainsFunc(p.Promote, func(pr Promotion) bool { return pr.Create == 0 })
	}
}

// room is the grants there are, and what still fits.
type room struct {
	limit  int64
	grants []*Grant
	// admitted are grants as the admission rule takes them.
	admitted []driver.Grant
	// fresh are those that the plan itself grants.
	fresh []*Grant
	asked bool // the stored limit made a difference
}

func (r *room) add(g *Grant, promoted *Entry) {
	v := &g.Entry().Value
	r.grants = append(r.grants, g)
	r.admitted = append(r.admitted, driver.Grant{Mode: v.DriverMode(), Weight: v.Weight, Reentry: v.Reentry, Kept: g.Main == nil})
	if promoted != nil {
		r.fresh = append(r.fresh, g)
	}
}

// closed reports whether the plan itself grants something that keeps all others out.
func (r *room) closed() bool {
	return slices.ContainsFunc(r.fresh, func(g *Grant) bool { return !g.Entry().Value.Shared() })
}

// fits reports whether a claim can be granted beside what is granted.
func (r *room) fits(v *Value) bool {
	t := v.terms()
	// The stored limit decides only for a claim with a limit beside shared grants.
	r.asked = r.asked || v.Shared() && v.Limit > 0 && len(r.admitted) > 0 && driver.Fits(r.admitted, &driver.Terms{Mode: driver.Shared}, 0)
	return driver.Fits(r.admitted, t, r.limit)
}

// reenters reports whether an exclusive claim may join the grants there are.
func (r *room) reenters(v *Value) bool { return driver.Joins(r.admitted, v.terms()) }

// witnesses returns keys that suffice to keep a claim out, none if what the plan
// grants does so already. Two who leave at the same time would otherwise each
// believe that the other still keeps the next one out.
func (r *room) witnesses(v *Value) (keys []*Entry, enough bool) {
	beside := room{limit: r.limit}
	for _, g := range r.fresh {
		beside.add(g, nil)
	}
	for i := len(r.grants) - 1; i >= 0 && beside.fits(v); i-- {
		if g := r.grants[i]; !slices.Contains(r.fresh, g) {
			beside.add(g, nil)
			keys = append(keys, g.Entry())
		}
	}
	return keys[:min(len(keys), maxWitness)], len(keys) <= maxWitness
}
