// SPDX-License-Identifier: Apache-2.0

package worker

import "testing"

func TestSampler(t *testing.T) {
	for _, n := range []int{0, 1, most, most + 1, 10*most + 7} {
		s := newSampler()
		for i := range n {
			s.add(float64(i))
		}
		if s.seen != n {
			t.Errorf("%d values: %d seen", n, s.seen)
		}
		if n <= most && len(s.kept) != n {
			t.Errorf("%d values: %d kept, all fit", n, len(s.kept))
		}
		if len(s.kept) > most || n > most && len(s.kept) < most/2 {
			t.Errorf("%d values: %d kept, want %d to %d", n, len(s.kept), most/2, most)
		}
		for i := 1; i < len(s.kept); i++ {
			if s.kept[i]-s.kept[i-1] != float64(s.stride) {
				t.Fatalf("%d values: %v follows %v, the stride is %d", n, s.kept[i], s.kept[i-1], s.stride)
			}
		}
	}
}
