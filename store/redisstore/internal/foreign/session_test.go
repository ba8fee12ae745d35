// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"testing"
	"time"
)

// TestOnlyALockThatEndsSoonerEndsTheWait: if the lease is the one that the core knows, waiters would
// poll instead of waiting for a message.
func TestOnlyALockThatEndsSoonerEndsTheWait(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		wait, after time.Duration
		want        bool
	}{
		{60 * time.Minute, 60 * time.Minute, false}, // the core waits for as long as the lease
		{66 * time.Minute, 59 * time.Minute, false}, // and up to a tenth longer
		{60 * time.Minute, 90 * time.Minute, false},
		{60 * time.Minute, 50 * time.Minute, true},
		{60 * time.Minute, time.Millisecond, true},
		{60 * time.Minute, 0, false}, // unknown
		{0, time.Minute, false},      // no bound
	} {
		ctx := t.Context()
		if tt.wait > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, tt.wait)
			defer cancel()
		}
		if got := endsSooner(ctx, tt.after); got != tt.want {
			t.Errorf("a wait of %v and a lock that ends after %v: %v", tt.wait, tt.after, got)
		}
	}
}
