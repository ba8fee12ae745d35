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
