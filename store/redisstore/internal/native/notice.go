// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"maps"
	"slices"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// Notices notify a session that a claim waits behind one of its grants. The claim that becomes
// the first in the queue publishes the number of the granted claim on a channel of the holder's
// session, whether or not a process listens:
//
//	holder: SUBSCRIBE, then LLEN of each watched lock ──▶ more than one pair: wanted
//	waiter: RPUSH, and PUBLISH if no claim is before it ──▶ wanted
//
// So no grant has a mark that it is watched, which every release would have to remove. A claim
// that came before the subscription, or in a gap of it, is found by LLEN. A channel other than
// that of the pushes keeps the notices away from processes that wait often and watch nothing.
//
// A claim that is queued behind others publishes nothing: the first of them has, or was there
// before the grant. Of more than 64 readers a few are notified, because a script that publishes ten
// thousand messages blocks its server.

// noticeSuffix is behind the channel of the pushes of a session.
const noticeSuffix = ":w"

// watch begins to watch a granted claim.
func (s *session) watch(k *claim) {
	if s.wanted == nil {
		return
	}
	c := s.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.state == withdrawn || k.watched {
		return // withdrawn before the answer to its attempt arrived; or reset since, and then the subscription begins again
	}
	k.watched = true
	switch c.notices {
	case unasked:
		c.notices = asked
		s.store.client.Listen(s.ctx, s.store.channel(s.channel+noticeSuffix), s.noticed, s.notice)
	case confirmed:
		go s.check(map[uint64]string{k.seq: k.name})
	}
}

// expect begins to watch a claim that is about to be attempted, and reports whether it does: if
// the claim is granted with no claim behind it, every later one is published to this session, and
// nothing must be checked.
func (s *session) expect(k *claim) (expected bool) {
	if s.wanted == nil {
		return false
	}
	s.claims.note(k, func(k *claim) {
		expected = s.claims.notices == confirmed && !k.watched
		k.watched = k.watched || expected
	})
	return expected
}

// noticed checks every watched lock: what was published before the subscription, or in a gap of it,
// is lost.
func (s *session) noticed() {
	c, watched := s.claims, map[uint64]string{}
	c.mu.Lock()
	c.notices = confirmed
	for seq, k := range c.bySeq {
		if k.watched {
			watched[seq] = k.name
		}
	}
	c.mu.Unlock()
	go s.check(watched)
}

// notice is the number of a claim in 6 bytes: another claim waits behind it.
func (s *session) notice(text string) {
	if len(text) != 6 {
		return // not ours
	}
	s.notify(uint64(rediscmd.NumberOf(text)))
}

func (s *session) notify(seq uint64) {
	c := s.claims
	c.mu.Lock()
	k := c.bySeq[seq]
	watched := k != nil && k.watched
	if watched {
		k.wanted = true
	}
	c.mu.Unlock()
	if watched {
		s.wanted(seq)
	}
}

// maxChecked is how many locks one call checks.
const maxChecked = 100

// check notifies of the claims behind which another one is. It is repeated until the server
// answers: one that was just restarted has closed the connections of before.
func (s *session) check(all map[uint64]string) {
	for part := range slices.Chunk(slices.Collect(maps.Keys(all)), maxChecked) {
		for !s.ask(all, part) {
			if rediscmd.Pause(s.ctx); s.ctx.Err() != nil {
				return
			}
		}
	}
}

// ask asks once, and reports whether the server answered.
func (s *session) ask(names map[uint64]string, seqs []uint64) bool {
	ctx, cancel := context.WithTimeout(s.ctx, s.ttl)
	defer cancel()
	var c rediscmd.Commands
	for _, seq := range seqs {
		c.Add("LLEN", s.plain.lists+names[seq])
	}
	if err := s.store.client.Send(ctx, &c); err != nil {
		return false
	}
	for _, seq := range seqs {
		if c.Number() > 2 {
			s.notify(seq)
		}
	}
	return true
}
