// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"maps"
	"slices"

	"github.com/fencelock/fencelock/driver"
)

// outcomeUnknown notes that the downgrade of a claim is about to be sent. Until its outcome is known either of
// two nodes may be the claim's, and neither is watched.
func (ss *session) outcomeUnknown(cl *driver.Claim) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.watched.unsure == nil {
		ss.watched.unsure = map[uint64]string{}
	}
	ss.watched.unsure[cl.Seq] = cl.Name
}

// outcomeKnown notes the node that a claim has after a downgrade.
func (ss *session) outcomeKnown(seq uint64, n node) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.watched.unsure, seq)
	if e, ok := ss.claims[seq]; ok {
		e.node = n
		ss.claims[seq] = e
	}
}

// findOutcomes finds out the outcomes of downgrades that are not known: the reply was lost, and the context of
// the caller has ended.
func (ss *session) findOutcomes(c *call) error {
	if len(ss.unknownOutcomes()) == 0 {
		return nil
	}
	ss.downgrades.Lock()
	defer ss.downgrades.Unlock()
	for seq, name := range ss.unknownOutcomes() {
		if err := ss.findOutcome(c, &driver.Claim{Seq: seq, Name: name}); err != nil {
			return err
		}
	}
	return nil
}

func (ss *session) unknownOutcomes() map[uint64]string {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return maps.Clone(ss.watched.unsure)
}

// findOutcome watches the node that a claim has. A claim that has none was deleted by another program.
func (ss *session) findOutcome(c *call, cl *driver.Claim) error {
	if err := c.catchUp(ss.store); err != nil {
		return err
	}
	ln, err := ss.readLock(c, cl.Name)
	if err != nil {
		return err
	}
	n, there := find(slices.Concat(ln.granted, ln.waiting), ss.id, cl.Seq)
	if _, noted := ss.knownClaim(cl.Seq); there && noted { // otherwise it was withdrawn since
		if there, err = ss.tokenise(c, cl, &knownClaim{node: n}); err != nil {
			return err
		}
	}
	if there {
		ss.outcomeKnown(cl.Seq, n)
		return nil
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.watched.unsure, cl.Seq)
	ss.takeLocked(cl.Seq)
	return nil
}
