// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/bench/internal/candidate"
	"github.com/fencelock/fencelock/bench/internal/engine"
	"github.com/fencelock/fencelock/bench/internal/worker"
)

// Holding is a process that holds many locks on a server of its own. What it costs
// is counted until Finish, while other measurements go on elsewhere: holding is
// nearly silent, and takes a few TTLs to judge.
type Holding struct {
	c         *candidate.Candidate
	redis     *engine.Redis
	processes *worker.Processes
	n         int
	fill      *worker.Result
	memory    float64 // of the server, before
	held      float64 // and with all locks
	cpu       float64 // of the server, in seconds, since began
	began     time.Time
}

// Held is what holding costs.
type Held struct {
	Locks int
	// Fill is how long it took to take them all.
	Fill time.Duration
	// Commands is what the holder sends per second, CPU the share of a core that
	// the server spends.
	Commands, CPU float64
	// ServerBytes and ClientBytes are the memory for each lock.
	ServerBytes, ClientBytes float64
}

// String is one line for people.
func (h *Held) String() string {
	return fmt.Sprintf("%d locks held: taken in %.1f s; then %.2f commands/s and %.2f %% of a core of the server; %.0f bytes each in the server, %.0f in the client",
		h.Locks, h.Fill.Seconds(), h.Commands, 100*h.CPU, h.ServerBytes, h.ClientBytes)
}

// holdName begins the names: hold/0, hold/1 and so on.
const holdName = "hold"

// Hold starts a server and a process that takes n locks.
func Hold(ctx context.Context, c *candidate.Candidate, n int) (*Holding, error) {
	redis, err := engine.StartRedis(ctx)
	if err != nil {
		return nil, err
	}
	h := &Holding{c: c, redis: redis, n: n}
	if err := h.begin(ctx); err != nil {
		h.Stop()
		return nil, fmt.Errorf("%s, %d locks held: %w", c.Name, n, err)
	}
	return h, nil
}

func (h *Holding) begin(ctx context.Context) (err error) {
	if h.processes, err = worker.Start(ctx, h.c, h.redis.Addr, 1); err != nil {
		return err
	}
	// One first, so that connections and sessions are not counted with the locks.
	if _, err = h.processes.Run(ctx, worker.Task{Name: "first", Hold: 1}); err != nil {
		return err
	}
	if h.memory, err = h.redis.Info(ctx, "memory", "used_memory"); err != nil {
		return err
	}
	if h.fill, err = h.processes.Run(ctx, worker.Task{Name: holdName, Hold: h.n}); err != nil {
		return err
	}
	if err = failure(h.fill); err != nil {
		return err
	}
	if h.held, err = h.redis.Info(ctx, "memory", "used_memory"); err != nil {
		return err
	}
	if h.cpu, err = h.redis.CPU(ctx); err != nil {
		return err
	}
	h.began = time.Now()
	return h.redis.ResetStats(ctx)
}

// Finish waits until the locks have been held for that long, and returns what it
// cost. It fails if they are not held any more.
func (h *Holding) Finish(ctx context.Context, atLeast time.Duration) (*Held, error) {
	time.Sleep(atLeast - time.Since(h.began))
	stats, err := h.redis.Stats(ctx)
	if err != nil {
		return nil, err
	}
	took := time.Since(h.began)
	cpu, err := h.redis.CPU(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.stillHeld(ctx); err != nil {
		return nil, err
	}
	n := float64(h.n)
	return &Held{
		Locks: h.n, Fill: h.fill.Took,
		Commands: float64(stats.Sent(h.c.Plain).Calls) / took.Seconds(), CPU: (cpu - h.cpu) / took.Seconds(),
		ServerBytes: (h.held - h.memory) / n, ClientBytes: float64(h.fill.Cost.Heap) / n,
	}, nil
}

// stillHeld tries to take the first and the last lock.
func (h *Holding) stillHeld(ctx context.Context) error {
	l, err := h.c.One(ctx, h.redis.Addr)
	if err != nil {
		return err
	}
	defer l.Close()
	for _, i := range []int{0, h.n - 1} {
		name := fmt.Sprintf("%s/%d", holdName, i)
		short, cancel := context.WithCancel(ctx)
		stop := time.AfterFunc(300*time.Millisecond, cancel)
		err := l.Do(short, name, nil)
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
	h.redis.Stop()
}
