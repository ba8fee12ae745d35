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
	// are idle: its client library asks whether its connections are well.
	Connected time.Duration
	// Base is what all masters together cost in a second in which no process calls.
	Base time.Duration
}

// connectedAwake is the part of Connected that a master spends which is awake anyway: the share that it is of a pair.
func (c *Costs) connectedAwake() time.Duration {
	if c.Pair == 0 {
		return c.Connected
	}
	return time.Duration(float64(c.Connected) * float64(c.Pair) / float64(c.Pair+2*c.Wake))
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
	// of its sessions and leases are reclaimed.
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
	// Lost is how many sessions were not renewed in the time that they are trusted.
	Lost int
	// Calm is when the last wait longer than a tenth of a second ended after Down.
	Calm  time.Duration
	Calls int
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
