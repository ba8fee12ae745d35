// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

// Holding is a process that holds many locks on a separate server. Its cost is counted
// until Finish, while other measurements go on elsewhere: a holder sends little, and its
// cost can be judged only after a few TTLs.
type Holding struct {
	c         *candidate.Candidate
	server    target.Server
	processes *worker.Processes
	n         int
	fill      *worker.Result
	memory    float64 // of the server, before
	held      float64 // and with all locks
	cpu       float64 // of the server, in seconds, since began
	began     time.Time
}

// LocksHeld is the case of so many.
func LocksHeld(n int) string { return fmt.Sprintf("%d held", n) }

// Holding measures what it costs to hold so many locks for a while.
func (e *Env) Holding(ctx context.Context, c *candidate.Candidate, n int, atLeast time.Duration) (Cells, error) {
	e.Progress("%s, %s: taking them", LocksHeld(n), c.Name)
	h, err := e.Hold(ctx, c, n)
	if err != nil {
		return nil, err
	}
	defer h.Stop()
	e.Progress("%s, %s: holding them", LocksHeld(n), c.Name)
	return h.Finish(ctx, atLeast)
}

// renewedWithin is more than the time between two renewals of any candidate.
const renewedWithin = 10 * time.Second

// holdName begins the names: hold/0, hold/1 and so on.
const holdName = "hold"

// Hold starts a server and a process that takes n locks.
func (e *Env) Hold(ctx context.Context, c *candidate.Candidate, n int) (*Holding, error) {
	server, err := e.Start(ctx)
	if err != nil {
		return nil, err
	}
	h := &Holding{c: c, server: server, n: n}
	if err := h.begin(ctx); err != nil {
		h.Stop()
		return nil, fmt.Errorf("%s, %d locks held: %w", c.Name, n, err)
	}
	return h, nil
}

func (h *Holding) begin(ctx context.Context) (err error) {
	h.processes, err = worker.Start(ctx, h.c, h.server.Addr(), 1)
	if err != nil {
		return err
	}
	// One first, so that connections and sessions are not counted with the locks.
	_, err = h.processes.Run(ctx, worker.Task{Name: "first", Hold: 1})
	if err != nil {
		return err
	}
	h.memory, err = dataOf(ctx, h.server)
	if err != nil {
		return err
	}
	h.fill, err = h.processes.Run(ctx, worker.Task{Name: holdName, Hold: h.n})
	if err != nil {
		return err
	}
	err = failure(h.fill)
	if err != nil {
		return err
	}
	h.held, err = dataOf(ctx, h.server)
	if err != nil {
		return err
	}
	h.cpu, err = h.server.CPU(ctx)
	if err != nil {
		return err
	}
	h.began = time.Now()
	return h.server.ResetStats(ctx)
}

// Finish waits until the locks have been held for that long, and returns what it
// cost. It fails if they are not held any more.
func (h *Holding) Finish(ctx context.Context, atLeast time.Duration) (Cells, error) {
	time.Sleep(atLeast - time.Since(h.began))
	stats, err := h.server.Stats(ctx)
	if err != nil {
		return nil, err
	}
	took := time.Since(h.began)
	cpu, err := h.server.CPU(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.stillHeld(ctx); err != nil {
		return nil, err
	}
	sent := stats.Sent(h.c.Plain).Calls
	if stats != nil && sent == 0 && took > renewedWithin {
		return nil, fmt.Errorf("%s kept its locks for %v and the server counted no command: Candidate.Plain lacks what keeps them", h.c.Name, took)
	}
	n := float64(h.n)
	return Cells{{Case: LocksHeld(h.n), Candidate: h.c.Name, Samples: []Sample{{
		FillSeconds: h.fill.Took.Seconds(),
		PerSecond:   float64(sent) / took.Seconds(),
		ServerCore:  100 * (cpu - h.cpu) / took.Seconds(),
		ServerBytes: (h.held - h.memory) / n, ClientBytes: float64(h.fill.Cost.Heap) / n,
	}}}}, nil
}

// stillHeld tries to take the first and the last lock.
func (h *Holding) stillHeld(ctx context.Context) error {
	l, err := h.c.One(ctx, h.server.Addr())
	if err != nil {
		return err
	}
	defer l.Close()
	for _, i := range []int{0, h.n - 1} {
		name := fmt.Sprintf("%s/%d", holdName, i)
		short, cancel := context.WithCancel(ctx)
		stop := time.AfterFunc(300*time.Millisecond, cancel)
		_, err := l.Lock(short, name)
		stop.Stop()
		cancel()
		if err == nil {
			return fmt.Errorf("%s: %s was not held any more", h.c.Name, name)
		}
	}
	return ctx.Err()
}

// Stop ends the process, whatever it holds, and the server.
func (h *Holding) Stop() {
	if h.processes != nil {
		h.processes.Kill()
	}
	h.server.Stop()
}
