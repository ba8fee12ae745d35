// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// one is a server with round costs.
var (
	oneKind  = Kind{Name: "one", Trips: 2, MaxConnections: 1000}
	oneUnits = Units{
		Server: "one", Pair: 20, Handoff: 100, KeepAlive: 10, Reclaim: 40, Waiting: 1, Connected: 5, Lease: 300, Session: 200, Claim: 100, Process: 5000,
		PairLatency: 60, HandoffLatency: 150, Connections: 3, Traffic: Traffic{Pair: 1000, Handoff: 3000, KeepAlive: 500, Connected: 10},
	}
)

func TestCostsAddUp(t *testing.T) {
	t.Parallel()
	p := Compute(oneKind, oneUnits, Load{Processes: 100, Held: 1000, Rate: 1000, Contended: 0.5, Waiting: 10, TTL: 30 * time.Second, Cross: 0.5})
	want := map[string]float64{
		"locks that are free": 0.01, "handoffs": 0.05, "keep-alives": 100 * renewed / 30 * 10 / 1e6,
		"claims that wait": 1e-5, "connections that are idle": 0.0005,
	}
	sum := 0.0
	for _, s := range p.Shares {
		if !near(s.Cores, want[s.What]) {
			t.Errorf("%s take %v cores, want %v", s.What, s.Cores, want[s.What])
		}
		sum += s.Cores
	}
	if !near(p.Cores, sum) || p.Masters != 1 || !near(p.Utilization, sum) {
		t.Errorf("%v cores on %d masters, %v busy; the shares are %v", p.Cores, p.Masters, p.Utilization, sum)
	}
	if !near(p.Memory, 1000*300+100*5000+10*100) || !near(p.Connections, 300) {
		t.Errorf("memory %v, connections %v", p.Memory, p.Connections)
	}
	traffic := 30 * 24 * 3600 * (500*1000.0 + 500*3000 + p.KeepAlives*500 + 100*10)
	if !near(p.Traffic, traffic) || !near(p.Billed, traffic/2) {
		t.Errorf("traffic %v, of which %v are billed, want %v and half of it", p.Traffic, p.Billed, traffic)
	}
}

// TestIdleServersWakeUp: a call costs most on a server that has nothing else to do.
func TestIdleServersWakeUp(t *testing.T) {
	t.Parallel()
	u := oneUnits
	u.Wake, u.Connected = 40, 0
	for _, tt := range []struct{ rate, low, high float64 }{{10, 59, 61}, {28_000, 25, 32}} {
		p := compute(oneKind, u, Load{Processes: 1, Rate: tt.rate, TTL: time.Minute}, 1)
		if each := p.Cores / tt.rate * 1e6; each < tt.low || each > tt.high {
			t.Errorf("%v a second: a pair costs %v µs, want %v to %v", tt.rate, each, tt.low, tt.high)
		}
	}
}

// TestCountsAreWhole: a user sets a limit to them.
func TestCountsAreWhole(t *testing.T) {
	for _, k := range Kinds {
		kind, u, err := Measured(k.Name)
		if err != nil {
			t.Fatal(err)
		}
		p := Compute(kind, u, Load{Processes: 333, Held: 777, Rate: 1000, Contended: 0.1, Waiting: 100, TTL: 7 * time.Second, Cross: 0.3})
		for what, n := range map[string]float64{"connections": p.Connections, "connections per server": p.EachConnections, "sessions": p.Sessions,
			"memory": p.Memory, "traffic": p.Traffic, "billed": p.Billed} {
			if n != math.Trunc(n) {
				t.Errorf("%s: %s %v", k.Name, what, n)
			}
		}
		if least := 333 * u.Connections / float64(kind.nodes()); p.EachConnections < least-1e-3 || p.EachConnections > least+1 {
			t.Errorf("%s: %v connections of %v", k.Name, p.EachConnections, least)
		}
	}
}

// TestSessionsOfAProcess: a process has one in each part of the names that it uses.
func TestSessionsOfAProcess(t *testing.T) {
	t.Parallel()
	cluster := Kind{Name: "many", Splits: true, Buckets: 32, Masters: 3}
	for _, tt := range []struct {
		name    string
		k       Kind
		l       Load
		masters int
		want    float64
	}{
		{"idle", oneKind, Load{Processes: 10, TTL: time.Minute}, 1, 0},
		{"one server", oneKind, Load{Processes: 10, Held: 50, Rate: 100, TTL: time.Minute}, 1, 1},
		{"cluster, one lock each", cluster, Load{Processes: 10, Held: 10, TTL: time.Minute}, 3, 1},
		{"cluster, any lock", cluster, Load{Processes: 10, Held: 10_000, TTL: time.Minute}, 3, 32},
		{"four shards", oneKind, Load{Processes: 10, Held: 10_000, TTL: time.Minute}, 4, 8}, // and a marker in each
	} {
		if got := tt.k.sessions(tt.l, tt.masters); math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("%s: %v sessions, want %v", tt.name, got, tt.want)
		}
	}
}

// TestMastersKeepRoom: no plan has a server that is busier than planned, and none has one more
// than it needs.
func TestMastersKeepRoom(t *testing.T) {
	t.Parallel()
	for rate := 1.0; rate < 1e7; rate *= 3 {
		p := Compute(oneKind, oneUnits, Load{Processes: 1, Rate: rate, TTL: time.Minute})
		if p.Utilization > Busy {
			t.Errorf("%v a second: %d masters are %v busy", rate, p.Masters, p.Utilization)
		}
		if p.Masters > 1 && compute(oneKind, oneUnits, p.Load, p.Masters-1).Utilization <= Busy {
			t.Errorf("%v a second: %d masters, and one less would do", rate, p.Masters)
		}
		if p.P99 < p.P50 || p.P50 < oneUnits.PairLatency {
			t.Errorf("%v a second: p50 %v, p99 %v", rate, p.P50, p.P99)
		}
	}
}

// TestPlanOfTooManyProcesses: where more servers do not help, the plan is that of the fewest, and says what does.
// Its connections, too, are more than the server accepts, which a longer TTL does not change.
func TestPlanOfTooManyProcesses(t *testing.T) {
	t.Parallel()
	p := Compute(oneKind, oneUnits, Load{Processes: 10_000_000, Held: 10_000_000, TTL: 15 * time.Second})
	if p.Masters != oneKind.masters() || p.Utilization <= Busy || len(p.Limits) != 2 || !strings.Contains(p.Limits[0], "more servers do not help") ||
		!strings.Contains(p.Limits[1], "raise its limit") {
		t.Errorf("%d masters are %v busy: %q", p.Masters, p.Utilization, p.Limits)
	}
}

// TestWakingUpNeedsNoServer: a server that sleeps often costs more time, and still has room for more calls.
func TestWakingUpNeedsNoServer(t *testing.T) {
	t.Parallel()
	u := oneUnits
	l := Load{Processes: 1, Rate: 10_000, TTL: time.Minute}
	calm := Compute(oneKind, u, l)
	u.Wake = 100 * u.Pair
	woken := Compute(oneKind, u, l)
	if woken.Masters != calm.Masters || woken.Utilization > calm.Utilization || woken.Cores <= calm.Cores {
		t.Errorf("%d masters, %v busy, %v cores; without waking up %d, %v, %v", woken.Masters, woken.Utilization, woken.Cores, calm.Masters, calm.Utilization, calm.Cores)
	}
}

func TestWaitGrowsWithUtilization(t *testing.T) {
	t.Parallel()
	before := 0.0
	for _, rate := range []float64{1000, 15_000, 30_000, 45_000, 49_000} {
		p := compute(oneKind, oneUnits, Load{Processes: 1, Rate: rate, TTL: time.Minute}, 1)
		if p.P99 <= before || p.P99 < p.P50 {
			t.Errorf("%v a second: p50 %v, p99 %v, which is not more than %v", rate, p.P50, p.P99, before)
		}
		before = p.P99
	}
	// Half busy with calls of 10 µs: the mean wait of M/D/1 is 5 µs, and one call in two does not wait.
	if p := compute(oneKind, oneUnits, Load{Processes: 1, Rate: 25_000, TTL: time.Hour}, 1); math.Abs(p.P99-(60+2*10*math.Log(50))) > 1 || math.Abs(p.P50-60) > 1 {
		t.Errorf("half busy: p50 %v, p99 %v", p.P50, p.P99)
	}
	if w := wait(0, 10, 0.99); w != 0 {
		t.Errorf("a call waits %v for an idle server", w)
	}
}

func TestLimitsNameARemedy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want string
		l          Load
	}{
		{"one server is not enough", "package shard", Load{Processes: 100, Held: 100, Rate: 200_000, TTL: 15 * time.Second}},
		{"many processes", "raise its limit", Load{Processes: 1000, Held: 1000, Rate: 10, TTL: 15 * time.Second}},
		{"many leases", "use --ttl", Load{Processes: 10, Held: 10_000_000, Rate: 10, TTL: 10 * time.Second}},
		{"a session on every server", "Use a longer --ttl", Load{Processes: 2_000_000, Held: 2_000_000, Rate: 1000, TTL: 10 * time.Second}},
	} {
		p := Compute(oneKind, oneUnits, tt.l)
		if all := strings.Join(p.Limits, "\n"); !strings.Contains(all, tt.want) {
			t.Errorf("%s: no limit has %q: %q", tt.name, tt.want, all)
		}
	}
	few := Compute(oneKind, oneUnits, Load{Processes: 10, Held: 10, Rate: 10, TTL: 10 * time.Second})
	if len(few.Limits) > 0 {
		t.Errorf("a small fleet has limits: %v", few.Limits)
	}
}

// TestRecoveryReclaimsEveryLease: by what a reclaim costs, on each server its part, beside what the server has to do anyway.
func TestRecoveryReclaimsEveryLease(t *testing.T) {
	t.Parallel()
	l := Load{Processes: 100, Held: 1_000_000, TTL: time.Minute}
	u := oneUnits
	u.Connected = 0
	idle := compute(oneKind, u, l, 1)
	if want := (1_000_000*40 + 100*10) / 1e6 / (1 - idle.Utilization); !near(idle.Recovery, want) || !near(idle.Headroom, 60/want) {
		t.Errorf("a million leases are reclaimed in %v s, want %v", idle.Recovery, want)
	}
	if all := compute(oneKind, u, l, 4); all.Recovery > 0.26*idle.Recovery || all.Recovery < 0.24*idle.Recovery {
		t.Errorf("a million leases on four servers are reclaimed in %v s, on one in %v", all.Recovery, idle.Recovery)
	}
	l.Rate = 25_000 // half of the server's time
	if busy := compute(oneKind, u, l, 1); math.Abs(busy.Recovery-2*idle.Recovery) > 0.01*idle.Recovery {
		t.Errorf("a million leases are reclaimed in %v s on a server that is half busy, in %v on one that is idle", busy.Recovery, idle.Recovery)
	}
}

// TestWaitsForIdleConnectionsOfEveryServer: a process connects to each shard, so that one of them is asked as often as a single server.
func TestWaitsForIdleConnectionsOfEveryServer(t *testing.T) {
	t.Parallel()
	u := oneUnits
	u.Connected = 50
	l := Load{Processes: 10_000, TTL: time.Hour}
	if one, four := compute(oneKind, u, l, 1), compute(oneKind, u, l, 4); math.Abs(one.P99-four.P99) > 0.01*one.P99 {
		t.Errorf("p99 %v on one server, %v on four that have the same idle connections each", one.P99, four.P99)
	}
}

func TestLoadIsChecked(t *testing.T) {
	t.Parallel()
	good := Load{Processes: 1, TTL: time.Second}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, l := range map[string]Load{
		"no process":     {TTL: time.Second},
		"negative rate":  {Processes: 1, TTL: time.Second, Rate: -1},
		"share above 1":  {Processes: 1, TTL: time.Second, Contended: 1.1},
		"short TTL":      {Processes: 1, TTL: time.Millisecond},
		"no number":      {Processes: 1, TTL: time.Second, Rate: math.NaN()},
		"negative locks": {Processes: 1, TTL: time.Second, Held: -1},
	} {
		if l.Check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestKindsAreMeasured: every kind has units, and no unit that a plan divides or multiplies by is missing.
func TestKindsAreMeasured(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds {
		_, u, err := Measured(k.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		for name, v := range map[string]float64{
			"Pair": u.Pair, "Handoff": u.Handoff, "KeepAlive": u.KeepAlive, "Reclaim": u.Reclaim, "PairLatency": u.PairLatency, "HandoffLatency": u.HandoffLatency,
			"Connections": u.Connections, "Traffic.Pair": u.Traffic.Pair, "Traffic.KeepAlive": u.Traffic.KeepAlive, "Traffic.Handoff": u.Traffic.Handoff,
		} {
			if !(v > 0) {
				t.Errorf("%s: %s is %v", k.Name, name, v)
			}
		}
	}
	if _, _, err := Measured("paper"); err == nil || !strings.Contains(err.Error(), "redis") {
		t.Errorf("an unknown server: %v", err)
	}
}

func TestPictureIsXML(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0, 10, 30_000, 1e6} {
		p := Compute(oneKind, oneUnits, Load{Processes: 10, Rate: rate, TTL: time.Minute})
		text := Picture(oneKind, oneUnits, p)
		d := xml.NewDecoder(strings.NewReader(text))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v a second: %v\n%s", rate, err, text)
			}
		}
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%v a second: %s", rate, text)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }
