// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/internal/rig"
)

// Flag is the first argument of a program that is started as a worker.
const Flag = "-worker"

// spec is the first line that a worker reads.
type spec struct {
	Candidate string
	Place     candidate.Place
}

// Serve is a worker: it opens its candidate and does the tasks it reads, until
// its input ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	var s spec
	if err := dec.Decode(&s); err != nil {
		return err
	}
	c, err := candidate.Named(s.Candidate)
	if err != nil {
		return err
	}
	lockers, err := c.Open(ctx, s.Place, 1)
	if err != nil {
		return err
	}
	if err := enc.Encode("ready"); err != nil {
		return err
	}
	for {
		var t Task
		if err := dec.Decode(&t); errors.Is(err, io.EOF) {
			lockers[0].Close()
			return nil
		} else if err != nil {
			return err
		}
		first := s.Place.Process * max(1, t.Goroutines)
		if err := enc.Encode(Run(ctx, lockers, t, first)); err != nil {
			return err
		}
	}
}

// Processes are workers of one candidate.
type Processes struct {
	Candidate *candidate.Candidate
	all       []*rig.Child
}

// Start starts n processes and returns when all are connected. The caller stops
// them with Stop.
func Start(ctx context.Context, c *candidate.Candidate, addr string, n int) (*Processes, error) {
	p := &Processes{Candidate: c}
	for i := range n {
		w, err := startProcess(ctx, c, i)
		if err == nil {
			p.all = append(p.all, w)
			err = w.Send(spec{c.Name, candidate.Place{Addr: addr, Process: i, Processes: n}})
		}
		if err != nil {
			p.Stop()
			return nil, err
		}
	}
	for _, w := range p.all {
		var ready string
		if err := w.Next(&ready, 0); err != nil {
			p.Stop()
			return nil, fmt.Errorf("before it was ready, see above: %w", err)
		}
	}
	return p, nil
}

// startProcess starts a worker of a candidate: this program, unless the candidate has another.
func startProcess(ctx context.Context, c *candidate.Candidate, i int) (*rig.Child, error) {
	r := rig.Command{Name: fmt.Sprintf("%s, process %d", c.Name, i), Args: []string{Flag}, Stderr: os.Stderr}
	if c.Command != nil {
		args, err := c.Command()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		r.Program, r.Args = args[0], args[1:]
	}
	return rig.Start(ctx, r)
}

// headStart is how long after the order a run begins, so that all processes
// have read it by then.
const headStart = 30 * time.Millisecond

// Run makes all processes do the task at the same time. Within the result, Took is
// that of the slowest.
func (p *Processes) Run(ctx context.Context, t Task) (*Result, error) {
	t.At = time.Now().Add(headStart)
	for _, w := range p.all {
		if err := w.Send(t); err != nil {
			return nil, err
		}
	}
	sum := &Result{}
	for _, w := range p.all {
		var r Result
		if err := w.Next(&r, 0); err != nil {
			return nil, err
		}
		sum.Ops += r.Ops
		sum.Took = max(sum.Took, r.Took)
		sum.Latencies = append(sum.Latencies, r.Latencies...)
		sum.Each = append(sum.Each, r.Each...)
		sum.Turns = append(sum.Turns, r.Turns...)
		sum.Cost = sum.Cost.plus(r.Cost)
		sum.Failed += r.Failed
		if sum.Err == "" {
			sum.Err = r.Err
		}
	}
	return sum, ctx.Err()
}

// patience is how long a process may take to end by itself.
const patience = 5 * time.Second

// Stop ends the processes: they disconnect when their input ends, and are killed
// if they do not.
func (p *Processes) Stop() {
	for _, w := range p.all {
		w.CloseInput()
	}
	for _, w := range p.all {
		_ = w.Finish(patience)
	}
	p.all = nil
}

// Kill ends the processes at once, whatever they hold.
func (p *Processes) Kill() {
	for _, w := range p.all {
		w.Kill()
	}
	p.all = nil
}
