// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/deployment"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/torture/internal/brokenlock"
	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
	"github.com/fencelock/fencelock/lab/torture/internal/lossynet"
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
	if err := servers.Redis.Need(); err != nil {
		t.Skip(err)
	}
	plan, err := fault.Parse("50ms stop holder for 100ms; 100ms flush-scripts server:0; 200ms kill client:1; 300ms cut client:2 for 200ms")
	must.OK(t, err)
	e, _ := deployment.Named("redis")
	r := cell.Run(t.Context(), cell.Cell{Deployment: e, Fault: fault.Kind{Name: "plan"}, Plan: plan, Seed: 1})
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

// TestWireCatchesABrokenLock: a holder that trusts its lock forever is caught when its packets
// are lost in one direction.
func TestWireCatchesABrokenLock(t *testing.T) {
	if err := servers.Redis.Need(); err != nil {
		t.Skip(err)
	}
	w, err := lossynet.New(1)
	if err != nil {
		t.Skip(err)
	}
	w.Close()
	plan, err := fault.Parse("300ms drop-up holder for 2.6s; 3.2s drop-down holder for 2.6s")
	must.OK(t, err)
	e, _ := deployment.Named("redis")
	r := cell.Run(t.Context(), cell.Cell{Deployment: e, Fault: fault.Kind{Name: "plan"}, Plan: plan, Seed: 1, Lock: brokenlock.Prefix + "no-deadline", Long: 1})
	if !slices.ContainsFunc(r.Violations, func(v check.Violation) bool { return v.Check == "D3" }) {
		t.Errorf("%s %s: no overlap was found in %d grants: %v", r.Status, r.Reason, r.Grants, r.Violations)
	}
}
