// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"maps"
	"slices"

	"github.com/fencelock/fencelock/driver"
)

// outcomeUnknown notes that the downgrade of a claim is about to be sent. Until its outcome is known either of
// two nodes may be the claim's, and neither is watched.
func (l *link) outcomeUnknown(cl *driver.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owned.unsure == nil {
		l.owned.unsure = map[uint64]string{}
	}
	l.owned.unsure[cl.Seq] = cl.Name
}

// outcomeKnown notes the node that a claim has after a downgrade.
func (l *link) outcomeKnown(seq uint64, n node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.owned.unsure, seq)
	if e, ok := l.claims[seq]; ok {
		e.node = n
		l.claims[seq] = e
	}
}

// findOutcomes finds out the outcomes of downgrades that are not known: the reply was lost, and the context of
// the caller has ended.
func (l *link) findOutcomes(c *call) error {
	if len(l.unknownOutcomes()) == 0 {
		return nil
	}
	l.downgrades.Lock()
	defer l.downgrades.Unlock()
	for seq, name := range l.unknownOutcomes() {
		if err := l.findOutcome(c, &driver.Claim{Seq: seq, Name: name}); err != nil {
			return err
		}
	}
	return nil
}

func (l *link) unknownOutcomes() map[uint64]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.owned.unsure)
}

// findOutcome watches the node that a claim has. A claim that has none was deleted by another program.
func (l *link) findOutcome(c *call, cl *driver.Claim) error {
	if err := c.catchUp(l.store); err != nil {
		return err
	}
	ln, err := l.readLock(c, cl.Name)
	if err != nil {
		return err
	}
	n, there := find(slices.Concat(ln.granted, ln.waiting), l.id, cl.Seq)
	if _, noted := l.entry(cl.Seq); there && noted { // otherwise it was withdrawn since
		if there, err = l.tokenise(c, cl, &entry{node: n}); err != nil {
			return err
		}
	}
	if there {
		l.outcomeKnown(cl.Seq, n)
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.owned.unsure, cl.Seq)
	l.takeLocked(cl.Seq)
	return nil
}
