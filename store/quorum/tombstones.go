// SPDX-License-Identifier: Apache-2.0

package quorum

import "time"

// tombstoneKept is how long a session refuses a tombstoned claim by itself, at least: much longer than an attempt can be on its way.
const tombstoneKept = time.Hour

// tombstones are claims that must not come back. A process lives for months, so old ones go: a claim is in the young ones
// first, and forgotten with the old ones when one is added two hours later.
type tombstones struct {
	young, old map[uint64]struct{}
	since      time.Time // when young was begun
}

func (t *tombstones) add(seq uint64) {
	if now := time.Now(); t.young == nil || now.Sub(t.since) >= tombstoneKept {
		t.young, t.old, t.since = map[uint64]struct{}{}, t.young, now
	}
	t.young[seq] = struct{}{}
}

func (t *tombstones) has(seq uint64) bool {
	_, young := t.young[seq]
	_, old := t.old[seq]
	return young || old
}
