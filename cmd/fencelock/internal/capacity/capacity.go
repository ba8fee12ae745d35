// SPDX-License-Identifier: Apache-2.0

// Package capacity computes what servers a fleet needs. Every function is a function of its
// arguments:
//
//	units (measured) ─╮
//	                  ├─▶ Compute ─▶ Plan: cores, servers, memory, connections, latencies, traffic
//	load (a user's)  ─╯
//
// The units are what one of each costs a server: processor time of a lock, a handoff, a
// keep-alive, a second of waiting. `make scale` measures them, on loopback, and writes
// units.json. Costs add up; how well is checked against real runs
// (TestPlansAgreeWithRealRuns). A call that finds a server idle costs more, because the server has to wake up; the
// busier a server is, the fewer calls do. A wait for a busy server is that of a queue to which calls of several
// lengths come at random (M/G/1): a server that does one thing at once, as Redis, is nearly that, and one with
// several cores waits less.
package capacity

import (
	"fmt"
	"math"
	"time"
)

// Units are what one of each costs: processor time of all servers together in µs, bytes of
// memory, bytes on the wire. bench writes the same fields, and explains them.
type Units struct {
	Server, Version                string
	Pair, Wake, Handoff, KeepAlive float64
	Reclaim                        float64
	Waiting, Connected, Base       float64
	Lease, Session, Claim, Process float64
	PairLatency, HandoffLatency    float64
	Connections                    float64
	Traffic                        Traffic
	// Calibrated reports whether the latencies are of the user's store.
	Calibrated bool `json:"-"`
}

// awake is the share of a call's cost that a server spends which is awake anyway. It was measured for a pair, and
// is taken for the calls of idle connections, too.
func (u *Units) awake() float64 {
	if u.Pair == 0 {
		return 1
	}
	return u.Pair / (u.Pair + u.Wake)
}

// Traffic is the bytes of one of each.
type Traffic struct{ Pair, Handoff, KeepAlive, Connected float64 }

// Load is what a fleet does.
type Load struct {
	// Processes is how many there are. Held is how many locks all of them hold on average, and
	// Rate how many they acquire in a second.
	Processes int     `json:"processes"`
	Held      int     `json:"held"`
	Rate      float64 `json:"acquisitions_per_second"`
	// Contended is the share of acquisitions that wait for another process, and Waiting how many
	// claims wait on average.
	Contended float64 `json:"contended_share"`
	Waiting   int     `json:"waiting"`
	// TTL is that of the sessions, and RoundTrip the time to the server and back.
	TTL       time.Duration `json:"ttl_ns"`
	RoundTrip time.Duration `json:"round_trip_ns"`
	// Cross is the share of processes in another zone than the server, whose traffic is billed.
	Cross float64 `json:"cross_zone_share"`
}

// Check returns what is wrong with a load.
func (l Load) Check() error {
	switch {
	case l.Processes < 1:
		return fmt.Errorf("--processes %d: at least one process is needed", l.Processes)
	case math.IsNaN(l.Rate) || math.IsInf(l.Rate, 0):
		return fmt.Errorf("--rate %v is not a number of acquisitions per second", l.Rate)
	case l.Held < 0 || l.Rate < 0 || l.Waiting < 0 || l.RoundTrip < 0:
		return fmt.Errorf("--locks, --rate, --waiting and --rtt must not be negative")
	case !(l.Contended >= 0 && l.Contended <= 1) || !(l.Cross >= 0 && l.Cross <= 1):
		return fmt.Errorf("--contended and --cross-zone are shares: use 0 to 1, such as 0.1 for ten percent")
	case l.TTL < time.Second:
		return fmt.Errorf("--ttl %v is too short: use 1s or more", l.TTL)
	}
	return nil
}

// Share is a part of the servers' time.
type Share struct {
	What  string  `json:"what"`
	Cores float64 `json:"cores"`
}

// Plan is what a load needs.
type Plan struct {
	Server  string  `json:"server"`
	Version string  `json:"measured_on"`
	Load    Load    `json:"load"`
	Shares  []Share `json:"shares"`
	// Cores is the processor time of all servers together, in seconds for each second, with that of waking up.
	Cores float64 `json:"cores"`
	// Masters is how many servers, quorums or ensembles share the names, so that none is busier than Busy.
	Masters int `json:"masters"`
	// Servers is how many server processes are to be run, with replicas and all nodes, and Layout what they are, in words.
	Servers int    `json:"servers"`
	Layout  string `json:"layout"`
	// Utilization is the share of each server's time that is work. Waking up is not: a server with more to do wakes up
	// less often, so that this time is room for other calls.
	Utilization float64 `json:"utilization"`
	// Memory is that of all servers; 0 if it was not measured.
	Memory float64 `json:"memory_bytes"`
	// Connections are those of all servers, and EachConnections those of one.
	Connections     float64 `json:"connections"`
	EachConnections float64 `json:"connections_per_server"`
	Sessions        float64 `json:"sessions"`
	KeepAlives      float64 `json:"keep_alives_per_second"`
	// P50 and P99 are of Lock and Unlock of a free lock, in µs; Handoff is the median.
	P50     float64 `json:"pair_p50_us"`
	P99     float64 `json:"pair_p99_us"`
	Handoff float64 `json:"handoff_p50_us"`
	// Calibrated reports whether these latencies begin from those of the user's store.
	Calibrated bool `json:"calibrated,omitempty"`
	// Recovery is how many seconds it takes, beside the planned load, until every session and lease of a master that
	// failed is known to a new one, and Headroom how many times that fits into a TTL.
	Recovery float64 `json:"recovery_seconds"`
	Headroom float64 `json:"recovery_headroom"`
	// Traffic is bytes in 30 days, Billed those that leave their zone.
	Traffic float64 `json:"traffic_bytes_month"`
	Billed  float64 `json:"cross_zone_bytes_month"`
	// Limits are what the plan runs into, in words.
	Limits []string `json:"limits,omitempty"`
}

// Busy is how busy a server is planned to be at most: above it waits grow faster than load, and a
// failover has no room.
const Busy = 0.6

// trusted is the share of its TTL for which a session is trusted: without 1 % for drift and 10 % as a margin.
const trusted = 0.89

// renewed is how often a session is renewed in its TTL: after a third of the time that it is
// trusted, or up to a tenth earlier.
const renewed = 3 / (0.95 * trusted)

const month = 30 * 24 * 3600

// mostMasters is where the search for enough servers ends.
const mostMasters = 1000

// Compute returns the plan of a load on a kind of server: on the fewest servers that are not too busy.
// If no number is enough, it is that of one.
func Compute(k Kind, u Units, l Load) Plan {
	fewest := compute(k, u, l, k.masters())
	p := fewest
	for p.Utilization > Busy && p.Masters < mostMasters {
		// At least as many more as the excess needs; each may add sessions.
		p = compute(k, u, l, max(p.Masters+1, min(mostMasters, int(float64(p.Masters)*p.Utilization/Busy))))
	}
	if p.Utilization > Busy {
		p = fewest
	}
	p.whole()
	p.Limits = limits(k, p)
	return p
}

// whole rounds counts up: a server does not have a part of a connection, and a limit must not be too low.
func (p *Plan) whole() {
	for _, count := range []*float64{&p.Connections, &p.EachConnections, &p.Sessions, &p.Memory, &p.Traffic, &p.Billed} {
		*count = max(0, math.Ceil(*count-1e-3)) // 300.0000001 is 300, and nothing is not -0
	}
}

// compute returns the plan of a load on so many servers.
func compute(k Kind, u Units, l Load, masters int) Plan {
	p := Plan{Server: k.Name, Version: u.Version, Calibrated: u.Calibrated, Load: l, Masters: masters}
	p.Servers, p.Layout = k.layout(masters)
	n := float64(l.Processes)
	free, contended := l.Rate*(1-l.Contended), l.Rate*l.Contended
	p.Sessions = n * k.sessions(l, masters)
	p.KeepAlives = p.Sessions * renewed / l.TTL.Seconds()
	grown := float64(masters) / float64(k.masters()) // a process connects to each
	p.Shares = []Share{
		{"locks that are free", free * u.Pair / 1e6},
		{"handoffs", contended * u.Handoff / 1e6},
		{"keep-alives", p.KeepAlives * u.KeepAlive / 1e6},
		{"claims that wait", float64(l.Waiting) * u.Waiting / 1e6},
		{"connections that are idle", n * u.Connected * u.awake() * grown / 1e6},
		{"the servers themselves", u.Base * grown / 1e6},
	}
	work := 0.0
	for _, s := range p.Shares {
		work += s.Cores
	}
	all := k.cores() * float64(masters)
	calls := 2*free + p.KeepAlives
	wake := (calls*u.Wake/2 + n*u.Connected*(1-u.awake())*grown) / 1e6
	p.Utilization, p.Cores = work/all, work
	if cores := all * (work + wake) / (all + wake); cores > work {
		p.Cores = cores
		p.Shares = append(p.Shares, Share{"waking up for a call", cores - work})
	}
	p.latencies(k, u, grown)
	p.Memory = float64(l.Held)*u.Lease + n*u.Process*grown + max(0, p.Sessions-n)*u.Session + float64(l.Waiting)*u.Claim
	p.Connections = n * u.Connections * grown
	p.EachConnections = n * u.Connections / float64(k.nodes())
	p.Recovery = (p.Sessions*u.KeepAlive + float64(l.Held)*u.Reclaim) / 1e6 / all / (1 - min(p.Utilization, mostBusy))
	if p.Recovery > 0 {
		p.Headroom = l.TTL.Seconds() / p.Recovery
	}
	p.Traffic = month * (free*u.Traffic.Pair + contended*u.Traffic.Handoff + p.KeepAlives*u.Traffic.KeepAlive + n*u.Traffic.Connected*grown)
	p.Billed = p.Traffic * l.Cross
	return p
}

// latencies fills in how long calls take. A process has so many times the connections that were measured.
func (p *Plan) latencies(k Kind, u Units, grown float64) {
	l := p.Load
	free, contended := l.Rate*(1-l.Contended), l.Rate*l.Contended
	connections := max(1, u.Connections)
	squares := 0.0 // of the time of each call, for all calls of a second
	for _, c := range []struct{ rate, usec float64 }{
		{2 * free, u.Pair / 2}, {handoffCalls * contended, u.Handoff / handoffCalls}, {p.KeepAlives, u.KeepAlive},
		{float64(l.Processes) * connections * grown, u.Connected * u.awake() / connections},
	} {
		squares += c.rate * c.usec * c.usec
	}
	busy := min(p.Utilization, mostBusy)
	mean := squares / 1e6 / float64(p.Masters) / (k.cores() * k.cores()) / (2 * (1 - busy))
	trip := float64(l.RoundTrip.Microseconds())
	base := u.PairLatency + k.Trips*trip
	p.P50 = base + 2*wait(busy, mean, 0.5) // a pair is two calls
	p.P99 = base + 2*wait(busy, mean, 0.99)
	p.Handoff = u.HandoffLatency + 1.5*trip + wait(busy, mean, 0.5)
}

// handoffCalls is how many calls a handoff is about: two by each of the two processes.
const handoffCalls = 4

// wait is a quantile of the time that a call waits for a server which is that busy, if calls wait for that long on
// average: with probability 1-busy not at all, else by an exponential distribution.
func wait(busy, mean, quantile float64) float64 {
	if quantile <= 1-busy {
		return 0
	}
	return mean / busy * math.Log(busy/(1-quantile))
}

// mostBusy is where a wait is computed at most: on a full server it has no end.
const mostBusy = 0.99

func limits(k Kind, p Plan) (all []string) {
	full := p.Utilization > Busy
	if full {
		all = append(all, fmt.Sprintf("%.0f %% is too much, and more servers do not help: each process has a session on each of them. "+
			"Use a longer --ttl, fewer processes (one for each machine holds the locks of all), or one lock domain for each team or region", 100*p.Utilization))
	}
	if p.Masters > 1 && !k.Splits && !full {
		all = append(all, fmt.Sprintf("one %s is not enough: spread the names over %d of them with package shard (docs/shard.md), or use another kind of server", k.one(), p.Masters))
	}
	if k.MaxConnections > 0 && p.EachConnections > float64(k.MaxConnections) {
		all = append(all, fmt.Sprintf("%.0f connections to one server are more than the %d that %s accepts by default: raise its limit, or put a pooler in front of it", p.EachConnections, k.MaxConnections, k.Name))
	}
	if p.Headroom > 0 && p.Headroom < 2 && !full {
		all = append(all, fmt.Sprintf("after a failover it takes %.1f s until all sessions and leases are known again: use --ttl %.0fs or more, or more servers", p.Recovery, math.Ceil(2*p.Recovery)))
	}
	return all
}
