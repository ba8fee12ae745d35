// SPDX-License-Identifier: Apache-2.0

package fleetsim

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
)

// layouts are the servers of real runs: one that does one call at once, several that share the names, or two
// cores that serve what comes.
var layouts = map[string]Fleet{
	"redis": {Masters: 1}, "valkey": {Masters: 1}, "cluster": {Masters: 3}, "quorum": {Masters: 5, Quorum: true},
	"etcd": {Masters: 2}, "zk": {Masters: 2}, "postgres": {Masters: 2}, "mariadb": {Masters: 2}, "mysql": {Masters: 2},
}

// TestSimulationAgreesWithRealRuns simulates the fleets that were run on real servers (bench -runs), with the measured unit
// costs, and compares how busy the servers were. make figures-scale prints the figure.
func TestSimulationAgreesWithRealRuns(t *testing.T) {
	t.Parallel()
	var kept struct {
		Runs []struct {
			Server, Name            string
			Processes               int
			Rate, Contended, HoldMS float64
			Cores                   float64
		}
	}
	text, err := os.ReadFile("../../docs/scale/runs.json")
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	must.OK(t, err)
	units, err := os.ReadFile("../../docs/scale/units.json")
	must.OK(t, err)
	var errors []float64
	for _, r := range kept.Runs {
		f := layouts[r.Server]
		f.Costs, err = CostsOf(units, r.Server)
		must.OK(t, err)
		if f.Quorum {
			f.Costs = f.Costs.Over(f.Masters)
		}
		f.Processes, f.Sessions, f.Rate, f.Contended, f.Hold = r.Processes, 1, r.Rate, r.Contended, time.Duration(r.HoldMS*float64(time.Millisecond))
		f.TTL, f.For, f.Seed = 15*time.Second, 10*time.Second, 1
		got := Run(f).Mean * float64(f.Masters)
		errors = append(errors, math.Abs(got-r.Cores)/r.Cores)
		t.Logf("%-8s %-28s %8.0f locks/s: %.4f cores, simulated %.4f, error %.2f", r.Server, r.Name, r.Rate, r.Cores, got, errors[len(errors)-1])
	}
	errors = append(errors, failover(t, units))
	if len(errors) < 20 {
		t.Fatalf("only %d real runs are kept; run go run ./lab/bench -runs", len(errors))
	}
	slices.Sort(errors)
	median := figure.Figure{Name: "sim-vs-real-error", Value: errors[len(errors)/2], Goal: figure.AtMost(0.25)}
	t.Log(len(errors), "runs")
	figure.Print(median.Name, median.Value, median.Goal)
	if median.Value > 0.25 {
		t.Errorf("%v", median)
	}
}

// failover simulates the failover of lab/events: how long it took until every lease was reclaimed. The simulation is faster: in
// the real one the clients shared two cores with the server. Its error counts as that of a run.
func failover(t *testing.T, units []byte) float64 {
	var kept struct {
		Size struct {
			Sessions, Leases int
			TTL              time.Duration
		}
		Notes []struct {
			Name  string
			Value float64
		}
	}
	text, err := os.ReadFile("../../lab/events/results/failover.json")
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	must.OK(t, err)
	took := map[string]time.Duration{}
	for _, n := range kept.Notes {
		took[n.Name] = time.Duration(n.Value * float64(time.Second))
	}
	real, down := took["seconds until every lease was reclaimed"], took["seconds until a replica was the master"]
	if real == 0 || down == 0 {
		t.Fatalf("the kept failover has no times: %+v", kept.Notes)
	}
	c, err := CostsOf(units, "redis")
	must.OK(t, err)
	c.Connected = 0 // its clients use go-redis, which sends nothing over an idle connection
	out := Run(Fleet{
		Processes: kept.Size.Sessions, Masters: 1, Leases: kept.Size.Leases, TTL: kept.Size.TTL, Costs: c, Seed: 1,
		Down: kept.Size.TTL, Downtime: down, For: 3 * kept.Size.TTL,
	})
	e := math.Abs(out.Reclaimed.Seconds()-real.Seconds()) / real.Seconds()
	t.Logf("failover: every lease was reclaimed after %.1f s, simulated %.1f, error %.2f; %d sessions lost", real.Seconds(), out.Reclaimed.Seconds(), e, out.Lost)
	if out.Lost > 0 {
		t.Errorf("%d sessions were lost in the simulated failover, and none in the real one", out.Lost)
	}
	return e
}
