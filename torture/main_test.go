// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/fencelock/fencelock/torture/internal/cell"
	"github.com/fencelock/fencelock/torture/internal/engine"
	"github.com/fencelock/fencelock/torture/internal/fault"
	"github.com/fencelock/fencelock/torture/internal/history"
)

// TestMain lets the test binary be the client and the resource too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "client" || os.Args[1] == "resource") {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestOneCell: the whole pipeline, with a fault of each sort of target. What is
// checked is that the pipeline saw what it did; verdicts are for make
// torture-smoke, which says so if the machine is too busy.
func TestOneCell(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed; on Debian: apt-get install redis-server, then run go test ./torture again")
	}
	plan, err := fault.Parse("50ms stop holder for 100ms; 100ms flush-scripts server:0; 200ms kill client:1; 300ms cut client:2 for 200ms")
	if err != nil {
		t.Fatal(err)
	}
	e, _ := engine.Named("redis")
	r := cell.Run(t.Context(), cell.Cell{Engine: e, Fault: fault.Kind{Name: "plan"}, Plan: plan, Seed: 1})
	t.Logf("%s %s after %v: %d grants", r.Status, r.Reason, r.Took, r.Grants)
	seen := map[history.Kind]int{}
	for _, ev := range r.Events {
		seen[ev.Kind]++
	}
	for kind, least := range map[history.Kind]int{
		history.Start: 5, history.Grant: 4, history.Admit: 4, history.Wrote: 4, history.Final: 2,
		history.Fault: 4, history.Healed: 4, history.Killed: 1, history.End: 4,
	} {
		if seen[kind] < least {
			t.Errorf("the history has %d events %q, want at least %d: %v", seen[kind], kind, least, seen)
		}
	}
}
