// SPDX-License-Identifier: Apache-2.0

package redismodel

// reclaim puts a lost grant back, or confirms one that survived.
func (m *search) reclaim(s *state, g *msg) reply {
	if r := m.known(s, g); r != 0 {
		return reply{kind: r}
	}
	grace := s.srv.grace != 0
	r := m.putBack(&s.srv, g.who, g.seq, g.ticket)
	if c := &s.cl[g.who].claims[g.seq]; r == rRefused && grace && s.breaks == 0 && !m.Unnoticed && c.st == held && c.phase == sent {
		m.wrong("client %d loses its lease in a grace period", g.who)
	}
	return reply{kind: r, since: 1}
}

func (m *search) putBack(v *server, who, seq, ticket uint8) uint8 {
	m.refresh(v)
	for i := 0; i < int(v.n); i++ {
		e := &v.list[i]
		if !v.paired(i) || e.kind != isClaim || e.who != who || e.seq != seq {
			continue
		}
		if v.list[i-1].ticket == ticket {
			e.inc, e.generation, e.since = v.inc, v.sess[who].generation, 1
			return rConfirmed
		}
		v.remove(i) // what an attempt left that arrived after the loss
		v.remove(i - 1)
		i -= 2
	}
	if v.grace == 0 || v.tomb[who]&(1<<seq) != 0 {
		return rRefused
	}
	for i := 1; i < int(v.n); i++ {
		e := v.list[i]
		if !v.paired(i) || !m.stands(v, e) {
			continue
		}
		switch t := v.list[i-1].ticket; {
		case e.inc == v.inc && t <= v.base:
			return rRefused // another grant was reclaimed
		case e.inc == v.inc: // it waits for the end of the grace period
		case e.who == who && m.on(OwnClaims): // the session holds no other
			v.remove(i)
			v.remove(i - 1)
			i -= 2
		case t > ticket && m.on(Patience):
			return rUndecided
		case t > ticket:
			return rRefused
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
	return rConfirmed
}
