// SPDX-License-Identifier: Apache-2.0

package native

import "testing"

// TestWithdrawnClaimIsNotWatched: an answer to an attempt that is read after the claim was withdrawn
// leaves no watch behind.
func TestWithdrawnClaimIsNotWatched(t *testing.T) {
	s := &session{claims: &claims{}}
	n := &s.notices
	n.s, n.wanted, n.started = s, func(uint64) {}, true
	for seq := range uint64(2) {
		s.claims.begin(seq, claim{name: "x"})
		n.watch(seq, "x")
	}
	s.drop(0)
	n.watch(0, "x")
	if len(n.watched) != 1 || n.watched[1] != "x" {
		t.Errorf("watched are %v, want the claim that is held", n.watched)
	}
}
