// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

// Units are what one of each costs. The processor time is that of all servers together, in µs;
// bytes are memory of the servers, and Traffic has the bytes on the wire, with headers, in both
// directions and between the servers.
type Units struct {
	// Server is the name of the suite, Version that of the server.
	Server, Version string
	// Pair is Lock and Unlock of a free lock on a busy server, and Wake what the two cost more if both
	// find the server idle. Reader is Pair of a lock that others share. Handoff is the way of a lock from
	// a process to one that waits, KeepAlive one keep-alive of a session. Reclaim is one lease that is reclaimed after a failover;
	// it is derived from a failover, not measured with the others.
	Pair, Wake, Reader, Handoff, KeepAlive, Reclaim float64
	// Waiting is a second of one claim that waits, Connected a second of a process that does nothing, and Base a
	// second of the servers without any process.
	Waiting, Connected, Base float64
	// Lease, Session, Claim and Process are bytes: of a lock that is held, of a session, of a claim that
	// waits, and of a process that holds a lock and waits for another. 0 is not measured.
	Lease, Session, Claim, Process float64
	// PairLatency is the median of Lock and Unlock without load, and HandoffLatency that of a handoff.
	PairLatency, HandoffLatency float64
	// Connections are those of a process that holds a lock and waits for another.
	Connections float64
	Traffic     Traffic
}

// Traffic is the bytes of one of each, and of a second of a process that does nothing.
type Traffic struct{ Pair, Handoff, KeepAlive, Connected float64 }

const (
	unitClients  = 16 // for Pair
	unitPause    = 20 * time.Millisecond
	unitHandoff  = 5 // processes that want one lock
	unitSessions = 400
	unitWaiters  = 32
	unitClaims   = 32 // of each of them
	unitPolling  = 4  // the same in a database, where waiting claims poll
)

// Units measures them for a candidate of ours, with so many locks to hold. The machine must do
// nothing else: the traffic is that of all programs on loopback.
func (e *Env) Units(ctx context.Context, c *candidate.Candidate, leases int) (*Units, error) {
	u := &Units{}
	var err error
	u.Version, err = e.Server.Version(ctx)
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context, *candidate.Candidate, *Units) error{e.unitPair, e.unitReader, e.unitHandoff, e.unitSession, e.unitWaiting} {
		if err := step(ctx, c, u); err != nil {
			return nil, err
		}
	}
	if used, err := e.Server.Memory(ctx); err != nil || used == 0 {
		return u, err // it is not measured
	}
	e.Progress("%s, %s: taking them", LocksHeld(leases), c.Name)
	h, err := e.Hold(ctx, c, leases)
	if err != nil {
		return nil, err
	}
	defer h.Stop()
	u.Lease = max(0, h.held-h.memory) / float64(leases)
	return u, nil
}

// unitPair measures at two loads: a server that has nothing else to do spends more on waking up than
// on a command.
func (e *Env) unitPair(ctx context.Context, c *candidate.Candidate, u *Units) error {
	alone, err := e.Fleet(ctx, []*candidate.Candidate{c}, 1, 0)
	if err != nil {
		return err
	}
	u.PairLatency = alone[0].Median(P50)
	paused, err := e.Fleet(ctx, []*candidate.Candidate{c}, unitClients, unitPause)
	if err != nil {
		return err
	}
	var full *Cell
	pairs := 0.0
	bytes, err := wired(func() error {
		cells, err := e.Fleet(ctx, []*candidate.Candidate{c}, unitClients, 0)
		if err == nil {
			full = cells[0]
			// The first repetition is short and has no sample.
			for _, rate := range full.Values(Rate) {
				pairs += rate * (e.For + awake).Seconds()
			}
			pairs *= 1 + 1/float64(warmUp*e.Repetitions)
		}
		return err
	})
	if err != nil {
		return err
	}
	u.Traffic.Pair = bytes / pairs
	u.Pair, u.Wake = atFullLoad(loadOf(full), loadOf(paused[0]))
	if !oneAtOnce(c) {
		u.Pair = full.Median(ServerCPU)
		u.Wake = max(0, paused[0].Median(ServerCPU)-u.Pair)
	}
	return nil
}

// oneAtOnce reports whether the server of a candidate executes one command at once, so that a call finds it either busy or
// idle. The others have a thread or a process for each connection, or several cores.
func oneAtOnce(c *candidate.Candidate) bool {
	return c.Server == "redis" || c.Server == "cluster" || c.Server == "quorum"
}

// load is what a pair cost, and how busy a server was.
type load struct{ busy, usec float64 }

func loadOf(c *Cell) load {
	usec := c.Median(ServerCPU)
	return load{busy: min(1, c.Median(Rate)*usec/1e6), usec: usec}
}

// atFullLoad returns what a pair costs a server that is always busy, and how much more one that is always idle:
// a call that arrives at random finds the server idle with the probability that it is. A pair is never taken for less than
// half of what was measured: two loads that are nearly the same show too little.
func atFullLoad(full, paused load) (pair, wake float64) {
	if full.busy <= paused.busy || full.usec >= paused.usec {
		return full.usec, 0
	}
	wake = (paused.usec - full.usec) / (full.busy - paused.busy)
	wake = min(wake, full.usec/2/(1-full.busy))
	return full.usec - wake*(1-full.busy), wake
}

// unitReader lets processes share one lock.
func (e *Env) unitReader(ctx context.Context, c *candidate.Candidate, u *Units) error {
	lockers, err := e.openMany(ctx, c, unitClients)
	if err != nil {
		return err
	}
	defer closeAll(lockers)
	for i, l := range lockers {
		lockers[i], err = candidate.Reading(l)
		if err != nil {
			return err
		}
	}
	task := worker.Task{Name: "unit/shared", Goroutines: 1, Uncanceled: true}
	cells, err := e.interleave(ctx, []run{{"readers", c.Name, func(ctx context.Context, e *Env, _ int) (Sample, error) {
		return e.fleet(ctx, c, lockers, task)
	}}})
	if err != nil {
		return err
	}
	u.Reader = cells[0].Median(ServerCPU)
	return nil
}

func (e *Env) unitHandoff(ctx context.Context, c *candidate.Candidate, u *Units) error {
	cells, err := e.SessionCrowd(ctx, []*candidate.Candidate{c}, []int{unitHandoff}, time.Millisecond)
	if err != nil {
		return err
	}
	u.Handoff, u.HandoffLatency = cells[0].Median(ServerCPU), cells[0].Median(Handoff50)
	lockers, err := e.openMany(ctx, c, unitHandoff)
	if err != nil {
		return err
	}
	defer closeAll(lockers)
	t := worker.Task{Name: "unit/handoff", For: e.For, Section: time.Millisecond}
	if err := everyTurn(ctx, lockers, t); err != nil {
		return err
	}
	ops := 0
	bytes, err := wired(func() error {
		r := worker.Run(ctx, lockers, t, 0)
		ops = r.Ops
		return failure(r)
	})
	u.Traffic.Handoff = bytes / float64(ops)
	return err
}

// wired returns the bytes that crossed loopback while f ran.
func wired(f func() error) (float64, error) {
	before, err := loopbackBytes()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := loopbackBytes()
	return after - before, err
}

// loopbackBytes is what loopback has received since the machine started.
func loopbackBytes() (float64, error) {
	text, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		if fields := strings.Fields(rest); name == "lo" && len(fields) > 0 {
			return strconv.ParseFloat(fields[0], 64)
		}
	}
	return 0, fmt.Errorf("/proc/net/dev has no lo: %q", text)
}

// closedFor bounds idleSockets.
const closedFor = 3 * time.Second

// idleSockets is openSockets after the connections of closed clients are gone: some are closed in the background.
func idleSockets() (int, error) {
	n, err := openSockets()
	for end := time.Now().Add(closedFor); err == nil && time.Now().Before(end); {
		time.Sleep(closedFor / 10)
		now, err := openSockets()
		if err != nil || now >= n {
			return now, err
		}
		n = now
	}
	return n, err
}

// openSockets is how many sockets this process has.
func openSockets() (n int, err error) {
	const fds = "/proc/self/fd"
	entries, err := os.ReadDir(fds)
	for _, f := range entries {
		if to, err := os.Readlink(fds + "/" + f.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n, err
}
