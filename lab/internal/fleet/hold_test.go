// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"time"
)

// TestOverlapsAreFound: the judge of a fleet is judged, too.
func TestOverlapsAreFound(t *testing.T) {
	at := func(n int) time.Time { return time.UnixMicro(int64(n)) }
	for want, all := range map[int][]Hold{
		0: {{Name: "a", From: at(1), Until: at(3)}, {Name: "a", From: at(3), Until: at(4)}, {Name: "b", From: at(2), Until: at(9)}},
		1: {{Name: "a", From: at(2), Until: at(4)}, {Name: "a", From: at(1), Until: at(3)}},
		2: {{Name: "a", Reads: true, From: at(1), Until: at(9)}, {Name: "a", Reads: true, From: at(2), Until: at(8)}, {Name: "a", From: at(3), Until: at(4)}},
	} {
		if got := Overlaps(all); len(got) != want {
			t.Errorf("%d overlaps in %v, want %d", len(got), all, want)
		}
	}
}
