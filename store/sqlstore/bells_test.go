// SPDX-License-Identifier: Apache-2.0

package sqlstore

import "testing"

// TestOverlappingAttemptsKeepOneBell: two attempts of a claim overlap, and each takes a bell out. The
// claim keeps the first, and the other serves other claims.
func TestOverlappingAttemptsKeepOneBell(t *testing.T) {
	for _, gone := range []bool{false, true} {
		b := &bells{taken: map[claimID]*bell{}}
		c := claimID{"s", 1}
		first, second := &bell{b: b, id: 7}, &bell{b: b, id: 8, gone: gone}
		for _, bl := range []*bell{first, second} {
			if id := b.give(c, bl); id != 7 {
				t.Errorf("an attempt got the bell %d, want 7", id)
			}
		}
		if idle := len(b.idle) == 1 && b.idle[0] == second; b.taken[c] != first || idle == gone {
			t.Errorf("the second bell is gone: %t; idle are %v, and the claim has %v", gone, b.idle, b.taken[c])
		}
	}
	b := &bells{taken: map[claimID]*bell{}}
	if id := b.give(claimID{"s", 1}, &bell{b: b, id: 7, gone: true}); id != 0 || len(b.taken) != 0 {
		t.Errorf("a bell that is gone was given: %d, %v", id, b.taken)
	}
}

// TestClaimThatLostItsBellTakesOne: a claim whose bell is gone is attempted again, and gets another one by that. Its next
// wait keeps it: one that is replaced would neither be freed nor serve another claim.
func TestClaimThatLostItsBellTakesOne(t *testing.T) {
	c := claimID{"s", 1}
	b := &bells{taken: map[claimID]*bell{}, lost: map[claimID]bool{c: true}}
	b.idle = []*bell{{b: b, id: 9, jobs: make(chan job, 2)}}
	b.give(c, &bell{b: b, id: 7, jobs: make(chan job, 2)})
	b.wait(c, job{other: 5})
	if b.taken[c].id != 7 || len(b.idle) != 1 || len(b.lost) > 0 {
		t.Errorf("the claim has the bell %d, %d are idle, %d claims have lost theirs", b.taken[c].id, len(b.idle), len(b.lost))
	}
}
