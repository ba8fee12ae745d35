// SPDX-License-Identifier: Apache-2.0

package native

import (
	"slices"
	"testing"
)

// TestWithdrawnClaimIsNotWatched: an answer to an attempt that is read after the claim was withdrawn
// leaves no watch behind.
func TestWithdrawnClaimIsNotWatched(t *testing.T) {
	s := &session{claims: &claims{notices: asked}, wanted: func(uint64) {}}
	var both []*claim
	for seq := range uint64(2) {
		k, _, _ := s.claims.begin(&claim{seq: seq, name: "x"})
		both = append(both, k)
	}
	s.watch(both[1])
	s.claims.drop(0)
	s.watch(both[0])
	if both[0].watched || !both[1].watched || slices.ContainsFunc(s.claims.all(), func(c claim) bool { return c.seq == 0 }) {
		t.Errorf("watched are %v and %v, want only the claim that is held", both[0].watched, both[1].watched)
	}
}
