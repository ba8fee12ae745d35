// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
)

// realRun is a fleet that was run on real servers by bench -runs.
type realRun struct {
	Server, Name                string
	Processes, Held, Waiting    int
	Rate, Contended, P50, Cores float64
	Memory, Connections         float64
}

// TestPlansAgreeWithRealRuns plans the fleets that were run on real servers, and compares cores, memory and connections, and
// the server's time of the failover of test/events.
// make figures-scale prints the figure. Latencies are logged and not compared: those of the runs are mostly waits of the
// clients for a processor, because they share the machine with the servers.
func TestPlansAgreeWithRealRuns(t *testing.T) {
	t.Parallel()
	var kept struct{ Runs []realRun }
	text, err := os.ReadFile("../../../../docs/scale/runs.json")
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil {
		t.Fatal(err)
	}
	var errors []float64
	of := map[string][]float64{}
	compare := func(r realRun, what string, planned, real float64) {
		if !(real > 0) {
			return // not measured, or nothing to measure
		}
		e := math.Abs(planned-real) / real
		errors, of[what] = append(errors, e), append(of[what], e)
		t.Logf("%-8s %-28s %-12s %12.4g, planned %12.4g, error %.2f", r.Server, r.Name, what, real, planned, e)
	}
	for _, r := range kept.Runs {
		k, u, err := Measured(r.Server)
		if err != nil {
			t.Fatal(err)
		}
		if k.Cores > 1 {
			k.Cores = 2 // of the machine
		}
		l := Load{Processes: r.Processes, Held: r.Held, Rate: r.Rate, Contended: r.Contended, Waiting: r.Waiting, TTL: 15 * time.Second}
		p := compute(k, u, l, k.masters())
		compare(r, "cores", p.Cores, r.Cores)
		compare(r, "connections", p.Connections, r.Connections)
		if u.Lease > 0 {
			compare(r, "memory", p.Memory, r.Memory)
		}
		t.Logf("%-8s %-28s p50 %.0f µs, planned %.0f", r.Server, r.Name, r.P50, p.P50)
	}
	failover(t, compare)
	for what, all := range of {
		slices.Sort(all)
		t.Logf("median error of %s: %.2f of %d", what, all[len(all)/2], len(all))
	}
	if len(errors) < 50 {
		t.Fatalf("only %d comparisons; run go run ./bench -runs", len(errors))
	}
	slices.Sort(errors)
	median := figure.Figure{Name: "plan-vs-real-error", Value: errors[len(errors)/2], Goal: figure.AtMost(0.3)}
	figure.Print(median.Name, median.Value, median.Goal)
	if median.Value > 0.3 {
		t.Errorf("%v", median)
	}
}

// failover compares what a failover cost the new master until all was calm. The cost of a reclaim comes from this failover, so
// that this holds the rest of the plan: that leases are reclaimed at this cost, and what else is counted.
func failover(t *testing.T, compare func(r realRun, what string, planned, real float64)) {
	var kept struct {
		Size struct {
			Sessions, Leases int
			TTL              time.Duration
		}
		Calm time.Duration
		CPU  float64
	}
	text, err := os.ReadFile("../../../../test/events/results/failover.json")
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil {
		t.Fatal(err)
	}
	k, u, err := Measured("redis")
	if err != nil {
		t.Fatal(err)
	}
	u.Connected = 0 // its clients use go-redis, which sends nothing over an idle connection
	p := compute(k, u, Load{Processes: kept.Size.Sessions, Held: kept.Size.Sessions * kept.Size.Leases, TTL: kept.Size.TTL}, 1)
	planned := p.Recovery + p.Cores*kept.Calm.Seconds()
	compare(realRun{Server: "redis", Name: "failover"}, "failover", planned, kept.CPU)
	if e := math.Abs(planned-kept.CPU) / kept.CPU; e > 0.3 {
		t.Errorf("a failover took %.1f s of the server's time, planned %.1f: error %.2f", kept.CPU, planned, e)
	}
}
