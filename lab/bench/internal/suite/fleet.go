// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

// Clients is the case of so many clients, each of which pauses after every unlock.
func Clients(n int, pause time.Duration) string {
	if pause > 0 {
		return fmt.Sprintf("%d clients, pause of %v", n, pause)
	}
	return fmt.Sprintf("%d clients", n)
}

// Fleet lets so many clients lock and unlock, each with its own connections, its own name
// and one goroutine, as that many processes do. What counts is the processor time of the
// server: it cannot distinguish clients from processes. Client time would be higher in
// processes.
func (e *Env) Fleet(ctx context.Context, candidates []*candidate.Candidate, n int, pause time.Duration) (Cells, error) {
	var runs []run
	for _, c := range candidates {
		lockers, err := e.openMany(ctx, c, n)
		if err != nil {
			return nil, err
		}
		defer closeAll(lockers)
		task := worker.Task{Name: "fleet/" + c.Name, Own: true, Goroutines: 1, Uncanceled: true, Pause: pause}
		runs = append(runs, run{Clients(n, pause), c.Name, func(ctx context.Context, e *Env, _ int) (Sample, error) {
			return e.fleet(ctx, c, lockers, task)
		}})
	}
	return e.interleave(ctx, runs)
}

// openMany opens lockers that do not even share a connection.
func (e *Env) openMany(ctx context.Context, c *candidate.Candidate, n int) ([]candidate.Locker, error) {
	lockers := make([]candidate.Locker, 0, n)
	for range n {
		l, err := c.One(ctx, e.Server.Addr())
		if err != nil {
			closeAll(lockers)
			return nil, err
		}
		lockers = append(lockers, l)
	}
	return lockers, nil
}

// awake is how long a fleet works before it is measured. A client that was idle may have
// to connect again first.
const awake = 50 * time.Millisecond

// fleet does a task and returns what it cost. It does not wait until the server is quiet:
// a client whose every call has returned leaves nothing behind.
func (e *Env) fleet(ctx context.Context, c *candidate.Candidate, lockers []candidate.Locker, t worker.Task) (Sample, error) {
	t.For = awake
	if err := failure(worker.Run(ctx, lockers, t, 0)); err != nil {
		return nil, err
	}
	t.For = e.For
	var r *worker.Result
	var usec float64
	stats, err := e.counting(ctx, func() (err error) {
		usec, err = e.charged(ctx, func() error {
			r = worker.Run(ctx, lockers, t, 0)
			return failure(r)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	s := perOp(r)
	s.count(stats, c, r.Ops)
	s[ServerCPU] = usec / float64(r.Ops)
	return s, nil
}

// charged runs work and returns the processor time that the server spent on it, in µs.
func (e *Env) charged(ctx context.Context, work func() error) (usec float64, err error) {
	before, err := e.Server.CPU(ctx)
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, err := e.Server.CPU(ctx)
	return 1e6 * (after - before), err
}
