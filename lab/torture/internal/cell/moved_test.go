// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"slices"
	"testing"

	"github.com/fencelock/fencelock/lab/internal/deployment"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// TestUnplannedTakeover: a takeover that no fault explains is about another fault,
// unless a fenced effect went wrong.
func TestUnplannedTakeover(t *testing.T) {
	gone := slices.Concat(fallen, []history.Event{{At: 5, Kind: history.Wrote, Lock: "l", Register: history.Fenced, Token: 8, Value: "lost"}})
	for _, tt := range []struct {
		name, deployment, fault, now string
		events                       []history.Event
		want                         Status
	}{
		{"no server took over", "sentinel-grace", "push-cut", "a", fallen, Failed},
		{"another server did, and no fault was the reason", "sentinel-grace", "push-cut", "b", fallen, NotRun},
		{"and a value was lost", "sentinel-grace", "push-cut", "b", gone, Failed},
		{"the fault was the reason", "sentinel-grace", "server-kill", "b", fallen, Allowed},
		{"a full disk is a reason for a sentinel", "sentinel-grace", "disk-full", "b", fallen, Allowed},
		{"and for a cluster it is none", "cluster-grace", "disk-full", "b", fallen, NotRun},
		{"it was asked to", "cluster", "slot-migration", "b", fallen, Failed},
		{"a short pause is no reason", "sentinel", "server-pause-short", "b", fallen, NotRun},
	} {
		e, _ := deployment.Named(tt.deployment)
		k, _ := fault.Named(tt.fault)
		c := Cell{Deployment: e, Fault: k, Seed: 1}.withDefaults()
		var why string
		c.Plan, why = c.plan()
		if why != "" {
			t.Fatalf("%s: %s", tt.name, why)
		}
		if got := judgeMoved(c, notified(tt.events), 0, nil, "a", tt.now); got.Status != tt.want {
			t.Errorf("%s: got %s (%s), want %s", tt.name, got.Status, got.Reason, tt.want)
		}
	}
}
