// SPDX-License-Identifier: Apache-2.0

package fleetsim

import (
	"time"
)

// Costs are service times of one master.
type Costs struct {
	// Pair is a lock and its unlock, Handoff a lock that was waited for and its unlock, KeepAlive one
	// keep-alive of a session, Reclaim one lease that is reclaimed after a failover.
	Pair, Handoff, KeepAlive, Reclaim time.Duration
	// Wake is what a call costs more that finds the master idle.
	Wake time.Duration
	// Connected is what a process costs all masters together in a second in which it does nothing, if they
	// are idle: its client library asks whether its connections are well, of which it has so many. In a quorum both are of
	// each master.
	Connected   time.Duration
	Connections int
	// Base is what all masters together cost in a second in which no process calls.
	Base time.Duration
}

// connected is what it costs to ask whether a connection is well, with waking up and without: the share that it is of a pair.
func (c *Costs) connected() (idle, awake time.Duration) {
	idle = c.Connected / time.Duration(max(1, c.Connections))
	if c.Pair == 0 {
		return idle, idle
	}
	return idle, time.Duration(float64(idle) * float64(c.Pair) / float64(c.Pair+2*c.Wake))
}

// Fleet is what is simulated.
type Fleet struct {
	Processes, Masters int
	// Sessions is how many sessions a process has, on as many masters; 0 for one on each master.
	Sessions int
	// Quorum sends every call to every master. A majority of the answers is waited for.
	Quorum bool
	// Rate is how many locks all processes acquire in a second, Contended the share that waits
	// for another process, Hold how long each is held on average, Leases how many a session holds all the time.
	Rate, Contended float64
	Hold            time.Duration
	Leases          int
	TTL             time.Duration
	Costs           Costs
	For             time.Duration
	// Restart starts all processes at once at time 0. Otherwise they have been running for long.
	Restart bool
	// Down is when the first master fails, 0 for never, and Downtime how long it is down; then all
	// of its sessions and leases are reclaimed. A quorum goes on without it.
	Down, Downtime time.Duration
	Seed           uint64
}

// Outcome is what was seen.
type Outcome struct {
	// Busy is the share of time that the busiest master worked, and Mean that of all.
	Busy, Mean float64
	// Waits are those of a sample of calls for their master.
	Waits []time.Duration
	// Arrivals are the calls in each Bin, and Worked the share of each Bin that the first master worked.
	Arrivals []int
	Worked   []float64
	// Lost is how many sessions were not renewed, and their leases reclaimed, in the time that they are trusted.
	Lost int
	// Calm is how long after Down the last call ended that had failed before, or had waited for longer than a Bin. Reclaimed
	// is the same of the last lease that was reclaimed.
	Calm, Reclaimed time.Duration
	Calls           int
}

// Bin is the width of the histogram of arrivals.
const Bin = 100 * time.Millisecond

// Run simulates a fleet.
func Run(f Fleet) Outcome {
	if f.Sessions == 0 {
		f.Sessions = f.Masters
	}
	r := newRun(f)
	for {
		e, ok := r.queue.pop()
		if !ok || e.at >= f.For {
			break
		}
		r.step(e)
	}
	return r.finish()
}
