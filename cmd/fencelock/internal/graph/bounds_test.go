// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"testing"
)

// TestEdgesOfAProcessAreBounded: a process that holds and waits for many locks has no edge for
// each pair, and its circle is still found.
func TestEdgesOfAProcessAreBounded(t *testing.T) {
	var locks []Lock
	for i := range 10 * maxWaits {
		locks = append(locks, Lock{Name: fmt.Sprintf("%04d", i), Holders: []Party{{Owner: "p"}}, Waiters: []Party{{Owner: "p"}}})
	}
	g := New(locks)
	edges := 0
	for _, steps := range g.before {
		edges += len(steps)
	}
	if want := len(locks) * maxWaits; edges != want {
		t.Errorf("%d edges, want %d", edges, want)
	}
	if len(g.Cycles()) != maxCycles {
		t.Errorf("%d circles", len(g.Cycles()))
	}
}
