// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"encoding/binary"
	"slices"
	"testing"
)

// move is a step of a piece on a line.
type move string

func (m move) String() string { return string(m) }

// TestSearch: the shortest way is found, whether states are packed or not, and a search ends at its limit.
func TestSearch(t *testing.T) {
	search := func(packed bool, goal uint16, limit int) Result {
		e := &Search[uint16, move]{}
		if packed {
			e.Pack = func(s *uint16, to []byte) []byte { return binary.LittleEndian.AppendUint16(to, *s) }
			e.Unpack = func(s *uint16, from []byte) { *s = binary.LittleEndian.Uint16(from) }
		}
		e.Expand = func(s *uint16) {
			for by, next := range map[move]uint16{"double": *s * 2, "add": *s + 1} {
				if e.Reach(&next, by); next == goal {
					e.Wrong(by, "at the goal")
				}
			}
		}
		return e.Run([]uint16{1, 3}, limit)
	}
	for _, packed := range []bool{false, true} {
		r := search(packed, 26, 1000)
		if want := []string{"double", "double", "add", "double"}; r.Violation != "at the goal" || !slices.Equal(r.Steps, want) {
			t.Errorf("packed %v: %q by %q, want it by %q", packed, r.Violation, r.Steps, want)
		}
		if r := search(packed, 0, 1000); r.Violation != "" || r.States < 1000 || r.States > 1001 {
			t.Errorf("packed %v: %d states, %q; want it to end at its limit", packed, r.States, r.Violation)
		}
	}
}
