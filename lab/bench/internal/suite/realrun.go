// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

// Mix is a fleet of three kinds of processes, each with its own connections.
type Mix struct {
	Name string
	// Free lock and unlock their own names and pause. Groups are groups of four processes that each pass one lock
	// among themselves. Idle hold a lock and do nothing.
	Free, Groups, Idle int
	Pause              time.Duration
}

// inGroup is how many processes want one lock, and groupSection how long each holds it.
const inGroup, groupSection = 4, time.Millisecond

// RealRun is what a Mix did and what it cost, for comparison with what was simulated and planned.
type RealRun struct {
	Server, Name string
	// Processes have a session each, and Held is how many locks they hold on average, Waiting how many claims wait.
	Processes, Held, Waiting int
	// Rate is acquisitions in a second, Contended the share that waited, HoldMS how long each was held on average.
	Rate, Contended, HoldMS float64
	// Cores is the processor time of all servers in a second, P50 that of Lock and Unlock of a free lock in µs; 0 without such locks.
	Cores, P50 float64
	// Memory is what the servers have more than without the fleet, in bytes; 0 is not measured.
	Memory, Connections float64
}

// RealRun runs a mix.
func (e *Env) RealRun(ctx context.Context, c *candidate.Candidate, m Mix) (*RealRun, error) {
	sockets, err := idleSockets()
	if err != nil {
		return nil, err
	}
	empty, err := e.Server.Memory(ctx)
	if err != nil {
		return nil, err
	}
	n := m.Free + inGroup*m.Groups + m.Idle
	lockers, err := e.openMany(ctx, c, n)
	if err != nil {
		return nil, err
	}
	defer closeAll(lockers)
	for i, l := range lockers[n-m.Idle:] {
		if err := l.Hold(ctx, fmt.Sprint("idle/", i)); err != nil {
			return nil, err
		}
	}
	if _, err := e.mixed(ctx, lockers, m, max(e.For, rampUp)); err != nil && !errors.Is(err, errNotAcquired) { // some are still connecting
		return nil, err
	}
	// One long run: the rate and the cost of the same time belong together.
	var did mixture
	e.Progress("%s, %s", m.Name, c.Name)
	began := time.Now()
	usec, err := e.charged(ctx, func() (err error) {
		did, err = e.mixed(ctx, lockers, m, time.Duration(e.Repetitions)*e.For)
		return err
	})
	if err != nil {
		return nil, err
	}
	cores := usec / 1e6 / time.Since(began).Seconds()
	full, err := e.Server.Memory(ctx)
	if err != nil {
		return nil, err
	}
	now, err := openSockets()
	rate := did.free.rate + did.crowd.rate
	r := &RealRun{
		Name: m.Name, Processes: n, Held: m.Idle + m.Groups, Waiting: (inGroup - 1) * m.Groups, Rate: rate, Cores: cores,
		Memory: max(0, full-empty), Connections: float64(now - sockets),
	}
	if m.Free > 0 {
		r.P50 = stat.Quantile(did.free.latencies, 0.5)
	}
	if rate > 0 {
		r.Contended = did.crowd.rate / rate
		r.HoldMS = r.Contended * groupSection.Seconds() * 1000
	}
	return r, err
}

// done is what some processes did.
type done struct {
	rate      float64
	latencies []float64
}

type mixture struct{ free, crowd done }

// mixed runs all processes of a mix for a while.
func (e *Env) mixed(ctx context.Context, lockers []candidate.Locker, m Mix, length time.Duration) (mixture, error) {
	var wg sync.WaitGroup
	groups := make([]*worker.Result, m.Groups)
	for g := range groups {
		from := m.Free + inGroup*g
		wg.Go(func() {
			groups[g] = worker.Run(ctx, lockers[from:from+inGroup], worker.Task{Name: fmt.Sprint("group/", g), Section: groupSection, For: length}, 0)
		})
	}
	var free *worker.Result
	if m.Free > 0 {
		free = worker.Run(ctx, lockers[:m.Free], worker.Task{Name: "free", Own: true, Goroutines: 1, Uncanceled: true, Pause: m.Pause, For: length}, 0)
	}
	wg.Wait()
	var out mixture
	if m.Free+m.Groups == 0 {
		time.Sleep(length)
	}
	if free != nil {
		if err := failure(free); err != nil {
			return out, err
		}
		out.free = done{free.Rate(), free.Latencies}
	}
	for _, g := range groups {
		if err := failure(g); err != nil {
			return out, err
		}
		out.crowd.rate += g.Rate()
	}
	return out, nil
}
