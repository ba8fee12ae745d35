// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"slices"
	"testing"
)

func TestBetween(t *testing.T) {
	turns := []Turn{ // not in order: each worker notes its own
		{Worker: 0, Acquired: 1000, Released: 2000},
		{Worker: 0, Acquired: 7000, Released: 8000},
		{Worker: 0, Acquired: 9000, Released: 10000},
		{Worker: 1, Acquired: 4000, Released: 5000},
		{Worker: 1, Acquired: 9500, Released: 11000}, // while worker 0 has it
		{Worker: 1, Acquired: 20000, Released: 21000},
	}
	h := Between(turns, 3, 2000, 20000)
	if want := []float64{2, 2}; !slices.Equal(h.Cross, want) {
		t.Errorf("Cross = %v, want %v", h.Cross, want)
	}
	if want := []float64{1}; !slices.Equal(h.Same, want) {
		t.Errorf("Same = %v, want %v", h.Same, want)
	}
	if h.Overlaps != 1 {
		t.Errorf("Overlaps = %d, want 1", h.Overlaps)
	}
	if want := []float64{2, 2, 0}; !slices.Equal(h.Each, want) {
		t.Errorf("Each = %v, want %v: a worker that never got it counts", h.Each, want)
	}
	if got, want := h.CrossShare(), 2.0/3; got != want {
		t.Errorf("CrossShare = %v, want %v", got, want)
	}
}
