// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// notices notify a session that a claim waits behind one of its grants. The claim that becomes
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
type notices struct {
	s      *session
	wanted func(seq uint64)

	mu      sync.Mutex
	started bool
	ready   bool              // the subscription began
	watched map[uint64]string // the names of watched claims
}

// noticeSuffix is behind the channel of the pushes of a session.
const noticeSuffix = ":w"

// watch begins to watch a granted claim.
func (n *notices) watch(seq uint64, name string) {
	if n.wanted == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.s.claims.has(seq) {
		return // it was withdrawn before the answer to its attempt arrived
	}
	if n.watched == nil {
		n.watched = map[uint64]string{}
	}
	if n.watched[seq] == name {
		return // it may have been reset since, and then the subscription begins again
	}
	n.watched[seq] = name
	if !n.started {
		n.started = true
		n.s.store.client.Listen(n.s.ctx, n.s.store.channel(n.s.pushes.channel+noticeSuffix), n.begun, n.message)
	}
	if n.ready {
		go n.check(map[uint64]string{seq: name})
	}
}

// expect begins to watch a claim that is about to be attempted, and reports whether it does: if
// the claim is granted with no claim behind it, every later one is published to this session, and
// nothing must be checked.
func (n *notices) expect(seq uint64, name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ready || n.watched[seq] != "" {
		return false
	}
	n.watched[seq] = name
	return true
}

// unwatch ends the watch of a claim.
func (n *notices) unwatch(seq uint64) {
	n.mu.Lock()
	delete(n.watched, seq)
	n.mu.Unlock()
}

// begun checks every watched lock: what was published before the subscription, or in a gap of it,
// is lost.
func (n *notices) begun() {
	n.mu.Lock()
	n.ready = true
	all := maps.Clone(n.watched)
	n.mu.Unlock()
	go n.check(all)
}

// message is the number of a claim in 6 bytes: another claim waits behind it.
func (n *notices) message(text string) {
	if len(text) != 6 {
		return // not ours
	}
	n.notify(uint64(rediscmd.NumberOf(text)))
}

func (n *notices) notify(seq uint64) {
	n.mu.Lock()
	_, watched := n.watched[seq]
	n.mu.Unlock()
	if watched {
		n.s.claims.want(seq)
		n.wanted(seq)
	}
}

// maxChecked is how many locks one call checks.
const maxChecked = 100

// check notifies of the claims behind which another one is. It is repeated until the server
// answers: one that was just restarted has closed the connections of before.
func (n *notices) check(all map[uint64]string) {
	for part := range slices.Chunk(slices.Collect(maps.Keys(all)), maxChecked) {
		for !n.ask(all, part) {
			if rediscmd.Pause(n.s.ctx); n.s.ctx.Err() != nil {
				return
			}
		}
	}
}

// ask asks once, and reports whether the server answered.
func (n *notices) ask(names map[uint64]string, seqs []uint64) bool {
	ctx, cancel := context.WithTimeout(n.s.ctx, n.s.ttl)
	defer cancel()
	var c rediscmd.Commands
	for _, seq := range seqs {
		c.Add("LLEN", n.s.fast.lists+names[seq])
	}
	if err := n.s.store.client.Send(ctx, &c); err != nil {
		return false
	}
	for _, seq := range seqs {
		if c.Number() > 2 {
			n.notify(seq)
		}
	}
	return true
}
