// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/fencelock/fencelock/torture/internal/engine"
	"github.com/fencelock/fencelock/torture/internal/fault"
)

// TestSmoke: every cell of CI exists and applies, and every engine has one but for
// those that differ from another by their grace alone.
func TestSmoke(t *testing.T) {
	used := map[string]bool{}
	for name := range smoke {
		e, f, _ := strings.Cut(name, " ")
		eng, ok := engine.Named(e)
		k, found := fault.Named(f)
		if !ok || !found {
			t.Errorf("there is no cell %q", name)
			continue
		}
		used[strings.TrimSuffix(e, "-grace")] = true
		shape := eng.Shape
		shape.Clients, shape.TTL = 4, 1
		for _, s := range k.Plan(1, shape) {
			if why := eng.Unfit(s); why != "" {
				t.Errorf("%s does not apply: %s", name, why)
			}
		}
	}
	for _, e := range engine.All {
		if !used[strings.TrimSuffix(e.Name, "-grace")] {
			t.Errorf("no cell of CI is about %s", e.Name)
		}
	}
	cells, err := matrix(options{smoke: true, rounds: 1})
	if err != nil || len(cells) != len(smoke) {
		t.Errorf("-smoke runs %d cells of %d: %v", len(cells), len(smoke), err)
	}
}
