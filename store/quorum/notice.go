// SPDX-License-Identifier: Apache-2.0

package quorum

// nodeWanted takes the notice of a node that a claim is queued behind one of the session's.
// One node is enough: a claim waits on all nodes, and its queueing on one of them may have
// been lost. The node may hold a mutex, so the notice is passed on apart from it.
func (b *quorumSession) nodeWanted(node uint64) {
	b.s.background.run(func() {
		b.mu.Lock()
		wanted := b.wanted
		b.mu.Unlock()
		if wanted != nil {
			wanted(coreSeq(node))
		}
	})
}
