// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"testing"
	"time"
)

// TestTrusted: a lock without a deadline is trusted for half its validity from the
// last check on, and a pause between two checks ends that for good.
func TestTrusted(t *testing.T) {
	h := &held{half: time.Second}
	if left := time.Until(h.Trusted()); left < time.Second/2 || left > time.Second {
		t.Errorf("trusted for %v, want about a second", left)
	}
	stopped := time.Now().Add(-time.Minute)
	h.seen.Store(stopped.UnixNano())
	for range 2 {
		if got := h.Trusted(); !got.Equal(stopped.Round(0).Add(time.Second)) {
			t.Errorf("after a pause it is trusted until %v, want a second after %v", got, stopped)
		}
	}
	h.deadline.Store(stopped.UnixNano())
	if got := h.Trusted(); !got.Equal(stopped.Round(0)) {
		t.Errorf("a lock with a deadline is trusted until %v, want that deadline", got)
	}
}
