// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"strconv"
	"testing"
)

// TestRecentIsBounded: a process that uses a new name each time must not remember all of them.
func TestRecentIsBounded(t *testing.T) {
	var r recent
	for i := range 3*maxRecent + 1 {
		name := strconv.Itoa(i)
		r.queued(name, 0)
		r.heldBy(name, nil)
		r.free(name)
		if n := len(r.locks); n > maxRecent {
			t.Fatalf("after %d names it remembers %d, want at most %d", i+1, n, maxRecent)
		}
		if _, ok := r.of(name); !ok {
			t.Fatalf("it does not remember name %d, which was used last", i)
		}
	}
}
