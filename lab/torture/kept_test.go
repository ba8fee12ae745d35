// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/report"
)

// TestTallied: what a run writes is read back, and a document without a result is an error.
func TestTallied(t *testing.T) {
	results := []cell.Result{{Status: cell.Held}, {Status: cell.Allowed}, {Status: cell.Failed}, {Status: cell.NotRun}, {Status: cell.NotApplicable}}
	text := "<!-- lossy -->\n\n" + report.Block(results, report.Source{Command: "x", When: time.Now()}) + "\n<!-- /lossy -->\n"
	if ran, failed, err := tallied(text); ran != 3 || failed != 1 || err != nil {
		t.Errorf("got %d run, %d failed, %v; want 3 and 1", ran, failed, err)
	}
	if _, _, err := tallied("<!-- matrix -->: 3 cells run, of which 3 held and 0 FAILED.<!-- /matrix -->"); err == nil {
		t.Error("a document without the second matrix was taken")
	}
}

// TestLossyRows: the two matrices share no row, and both can be asked for by name.
func TestLossyRows(t *testing.T) {
	seen := map[string]int{}
	for _, lossy := range []bool{false, true} {
		cells, err := matrix(options{lossy: lossy, rounds: 1, server: "redis"})
		must.OK(t, err)
		for _, c := range cells {
			seen[c.Fault.Name]++
		}
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s is in %d matrices", name, n)
		}
	}
	if cells, err := matrix(options{fault: "loss-20,calm", rounds: 1, server: "redis"}); err != nil || len(cells) != 2 {
		t.Errorf("by name: %d cells, %v", len(cells), err)
	}
}
