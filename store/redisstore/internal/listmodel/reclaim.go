// SPDX-License-Identifier: Apache-2.0

package listmodel

// Answers to a reclaim.
const (
	refused uint8 = iota
	undecided
	confirmed
)

// reclaim puts a lost grant back, or confirms one that survived.
func (m *search) reclaim(s *state, who, seq, ticket uint8) uint8 {
	v := &s.srv
	m.refresh(v)
	for i := 0; i < int(v.n); i++ {
		e := &v.list[i]
		if !v.paired(i) || e.kind != isClaim || e.who != who || e.seq != seq {
			continue
		}
		if v.list[i-1].ticket == ticket {
			e.inc, e.generation, e.since = v.inc, v.sess[who].generation, 1
			return confirmed
		}
		v.remove(i) // what an attempt left that arrived after the loss
		v.remove(i - 1)
		i -= 2
	}
	if v.grace == 0 || v.tomb[who]&(1<<seq) != 0 {
		return refused
	}
	for i := 1; i < int(v.n); i++ {
		e := v.list[i]
		if !v.paired(i) || !m.stands(v, e) {
			continue
		}
		switch t := v.list[i-1].ticket; {
		case e.inc == v.inc && t <= v.base:
			return refused // another grant was reclaimed
		case e.inc == v.inc: // it waits for the end of the grace period
		case t > ticket && m.on(Patience):
			return undecided
		case t > ticket:
			return refused
		default: // it was released before ours was granted
			v.remove(i)
			v.remove(i - 1)
			i -= 2
		}
	}
	rest := *v
	v.list, v.n = [maxList]elem{}, 0
	v.push(elem{kind: isTicket, ticket: ticket})
	v.push(elem{kind: isClaim, who: who, seq: seq, generation: v.sess[who].generation, inc: v.inc, since: 1})
	for i := range rest.n {
		v.push(rest.list[i])
	}
	return confirmed
}
