// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"math"
	"testing"
)

// TestCostAtFullLoad: a pair that is measured at two loads is split into what it costs a busy server, and waking up.
func TestCostAtFullLoad(t *testing.T) {
	for _, tt := range []struct {
		full, paused load
		pair, wake   float64
	}{
		{load{1, 20}, load{0, 60}, 20, 40},
		{load{0.8, 28}, load{0.2, 52}, 20, 40},
		{load{0.5, 30}, load{0.5, 40}, 30, 0}, // the same load shows nothing
		{load{0.9, 30}, load{0.1, 25}, 30, 0},
		{load{0.2, 40}, load{0.1, 90}, 20, 25},
	} {
		pair, wake := atFullLoad(tt.full, tt.paused)
		if math.Abs(pair-tt.pair) > 1e-9 || math.Abs(wake-tt.wake) > 1e-9 {
			t.Errorf("%+v, %+v: a pair costs %v and waking up %v, want %v and %v", tt.full, tt.paused, pair, wake, tt.pair, tt.wake)
		}
	}
}
