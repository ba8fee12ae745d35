// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/fleetsim"
)

// Setup is servers for a simulated fleet.
type Setup struct {
	Name string
	// server is whose unit costs it has.
	server   string
	masters  int
	sessions int // of a process, 0 for one on each master
	markers  bool
	quorum   bool
}

// Setups are those of docs/scale.md.
var Setups = []Setup{
	{Name: "one Redis server", server: "redis", masters: 1},
	{Name: "8 shards of Redis", server: "redis", masters: 8, markers: true},
	{Name: "cluster of 32 masters", server: "cluster", masters: 32},
	{Name: "quorum of 5", server: "quorum", masters: 5, sessions: 1, quorum: true},
}

// FleetSizes are how many processes are simulated.
var FleetSizes = []int{1000, 10_000, 100_000}

// What each process does.
const (
	eachRate      = 0.5 // acquisitions per second
	eachHeld      = 10
	eachContended = 0.05
	eachHold      = 200 * time.Millisecond
	simulatedTTL  = 15 * time.Second
)

// FleetRow is what the simulation of a setup shows at a size.
type FleetRow struct {
	Setup     string
	Processes int
	Busy      float64
	P50, P99  time.Duration // waits for a server
	// Peak is the busiest tenth of a second after all processes started at once, without the first, divided by the mean.
	Peak float64
	// Lost, Calm and Reclaimed are of a failover of three seconds.
	Lost            int
	Calm, Reclaimed time.Duration
	// After are the calls in each tenth of a second around the failover.
	After []int
}

const (
	simulatedFor      = 15 * time.Second
	failsAt, failsFor = 5 * time.Second, 3 * time.Second
	failureFor        = 30 * time.Second // until all is calm again
)

// Simulate runs one setup: as it is, with all processes starting at once, and with a failover.
func Simulate(units []byte, s Setup, processes int) (FleetRow, error) {
	c, err := fleetsim.CostsOf(units, s.server)
	if err != nil {
		return FleetRow{}, err
	}
	if s.quorum {
		c = c.Over(s.masters)
	}
	if s.markers {
		c.KeepAlive *= 2 // each member also has the marker of the process, with its own session
	}
	if s.server == "cluster" || s.markers { // a process connects to each master
		c.Connected = c.Connected * time.Duration(s.masters) / time.Duration(measuredMasters(s.server))
		c.Connections = c.Connections * s.masters / measuredMasters(s.server)
	}
	f := fleetsim.Fleet{
		Processes: processes, Masters: s.masters, Sessions: s.sessions, Quorum: s.quorum, Costs: c, TTL: simulatedTTL, For: simulatedFor, Seed: 1,
		Rate: eachRate * float64(processes), Contended: eachContended, Hold: eachHold, Leases: max(1, eachHeld/s.spread()),
	}
	calm := fleetsim.Run(f)
	row := FleetRow{Setup: s.Name, Processes: processes, Busy: calm.Busy, P50: quantile(calm.Waits, 0.5), P99: quantile(calm.Waits, 0.99)}
	if calm.Busy >= full {
		return row, nil // nothing else is known of it
	}
	start := f
	start.Restart = true
	row.Peak = peak(fleetsim.Run(start).Arrivals[1:])
	f.Down, f.Downtime, f.For = failsAt, failsFor, failureFor
	failed := fleetsim.Run(f)
	row.Lost, row.Calm, row.Reclaimed, row.After = failed.Lost, failed.Calm, failed.Reclaimed, failed.Arrivals
	return row, nil
}

// measuredMasters is on how many masters the unit costs of a server were measured.
func measuredMasters(server string) int {
	if server == "cluster" {
		return 3
	}
	return 1
}

// spread is over how many sessions a process spreads its locks.
func (s Setup) spread() int {
	if s.sessions > 0 {
		return s.sessions
	}
	return s.masters
}

func quantile(waits []time.Duration, q float64) time.Duration {
	if len(waits) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(waits))
	return sorted[int(q*float64(len(sorted)-1))]
}

// peak is the largest share divided by the mean.
func peak(arrivals []int) float64 {
	arrivals = arrivals[:len(arrivals)-1] // the last is not whole
	sum := 0
	for _, n := range arrivals {
		sum += n
	}
	return float64(slices.Max(arrivals)) * float64(len(arrivals)) / float64(sum)
}

// FleetTable is the rows as Markdown.
func FleetTable(rows []FleetRow) string {
	var b strings.Builder
	b.WriteString("| Servers | Processes | Busiest server | Wait p50 | Wait p99 | Peak after a restart of all, over the mean | Sessions lost in a failover of 3 s | Every lease reclaimed after | Calm after |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, r := range rows {
		if r.Busy >= full {
			fmt.Fprintf(&b, "| %s | %d | **full** | | | | | | |\n", r.Setup, r.Processes)
			continue
		}
		fmt.Fprintf(&b, "| %s | %d | %.1f %% | %s | %s | %.1f | %d | %s | %s |\n", r.Setup, r.Processes, 100*r.Busy, span(r.P50), span(r.P99), r.Peak, r.Lost, span(r.Reclaimed), span(r.Calm))
	}
	return b.String()
}

// full is a server that cannot do what comes.
const full = 0.98

func span(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%d µs", d.Microseconds())
}

// FleetPicture draws utilization and waits over the processes, and the calls around a failover.
func FleetPicture(rows []FleetRow) string {
	busy := panel{title: "busiest server", x: "processes", y: "% busy", most: 100}
	waits := panel{title: "wait for a server, p99", x: "processes", y: "µs", logY: true}
	failover := panel{title: fmt.Sprintf("failover, %d processes", FleetSizes[1]), x: "seconds", y: "calls in 100 ms", linear: true}
	for _, s := range Setups {
		b, w := line{name: s.Name}, line{name: s.Name}
		for _, r := range rows {
			if r.Setup != s.Name {
				continue
			}
			b.x, b.y = append(b.x, float64(r.Processes)), append(b.y, 100*r.Busy)
			if r.Busy < full {
				w.x, w.y = append(w.x, float64(r.Processes)), append(w.y, max(1, float64(r.P99.Microseconds())))
			}
			if r.Processes == FleetSizes[1] && r.Busy < full {
				l := line{name: s.Name}
				for i, n := range r.After[:len(r.After)-1] {
					l.x, l.y = append(l.x, float64(i)*fleetsim.Bin.Seconds()), append(l.y, float64(n))
				}
				failover.lines = append(failover.lines, l)
			}
		}
		busy.lines, waits.lines = append(busy.lines, b), append(waits.lines, w)
	}
	return draw("A simulated fleet: how busy the servers are, how long calls wait, and what a failover does",
		"Over 1,000 to 100,000 processes, for one server, shards, a cluster and a quorum. The table beside the picture has the numbers.", []panel{busy, waits, failover})
}
