// SPDX-License-Identifier: Apache-2.0

package liststore

import (
	"testing"
	"time"
)

// TestSweepRests: all sweeps of a server together take at most a tenth of its time, and a step
// that was held up outside of the server does not hold up the sweep ten times as long.
func TestSweepRests(t *testing.T) {
	for _, tt := range []struct {
		took    time.Duration
		buckets int
		want    time.Duration
	}{
		{time.Millisecond, 1, 10 * time.Millisecond},
		{time.Millisecond, 32, 320 * time.Millisecond},
		{10 * time.Microsecond, 1, between},
		{time.Second, 1, longest},
	} {
		if got := rest(tt.took, tt.buckets); got != tt.want {
			t.Errorf("after %v with %d buckets it rests %v, want %v", tt.took, tt.buckets, got, tt.want)
		}
	}
}
