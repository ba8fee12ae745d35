// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"slices"
	"testing"

	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/lock"
)

// TestDeployments: what a deployment says of itself fits together.
func TestDeployments(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range All {
		if seen[e.Name] || e.Name == "" {
			t.Errorf("deployment %q: no name, or one that another has", e.Name)
		}
		seen[e.Name] = true
		if lock.Kinds[e.Lock] == nil {
			t.Errorf("%s: there is no lock %q", e.Name, e.Lock)
		}
		if e.Shape.Servers == 0 {
			t.Errorf("%s has no servers to break", e.Name)
		}
		for _, v := range e.Can {
			if special[v] == "" {
				t.Errorf("%s can %q, which is no special fault", e.Name, v)
			}
		}
		for v := range e.Lacks {
			if slices.Contains(e.Can, v) {
				t.Errorf("%s can %q and says why it cannot", e.Name, v)
			}
		}
		for _, k := range e.Keeps {
			if kind, ok := fault.Named(k); !ok || !kind.LosesData {
				t.Errorf("%s keeps its grants in %q, where no server loses them", e.Name, k)
			}
		}
	}
}

// TestUnfit: a fault that a deployment does not know has a reason.
func TestUnfit(t *testing.T) {
	for _, tt := range []struct {
		e    Deployment
		step fault.Step
		fit  bool
	}{
		{redisOne, fault.Step{Verb: fault.Flush, Target: "server:0"}, true},
		{redisOne, fault.Step{Verb: fault.Migrate, Target: "master"}, false},
		{etcd, fault.Step{Verb: fault.Wipe, Target: "server:0"}, false},
		{etcd, fault.Step{Verb: fault.Stop, Target: "server:0"}, true},
		{postgres, fault.Step{Verb: fault.Kill, Target: "pooler"}, false},
		{postgresPool, fault.Step{Verb: fault.Kill, Target: "pooler"}, true},
	} {
		if why := tt.e.Unfit(tt.step); (why == "") != tt.fit {
			t.Errorf("%s, %s: got %q, want fit %v", tt.e.Name, tt.step, why, tt.fit)
		}
	}
}

// TestEndsEarly: exclusion in time is asked of an etcd that has the fault of issue 15247 in every fault but the one that shows
// it, and of later versions in all of them.
func TestEndsEarly(t *testing.T) {
	for version, want := range map[string]bool{"3.4.9": true, "3.4.23": true, "3.4.31": false, "3.5.12": true, "3.5.13": false, "3.5.35": false, "3.6.0": false} {
		if got := revokes("etcd Version: " + version + "\nGit SHA: 1"); got != want {
			t.Errorf("%s: got %v", version, got)
		}
	}
	if calm, _ := fault.Named("leader-kill"); etcd.EndsEarly(calm) {
		t.Error("a leader that is killed ends no session")
	}
	pause, _ := fault.Named("server-pause-long")
	if version := installedEtcd(); version != "" && etcd.EndsEarly(pause) != revokes(version) {
		t.Errorf("the etcd that is installed: %s", version)
	}
}
