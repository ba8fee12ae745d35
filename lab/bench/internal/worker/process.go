// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
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
	all       []*process
}

type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *json.Encoder
	dec *json.Decoder
}

// Start starts n processes and returns when all are connected. The caller stops
// them with Stop.
func Start(ctx context.Context, c *candidate.Candidate, addr string, n int) (*Processes, error) {
	p := &Processes{Candidate: c}
	for i := range n {
		w, err := startProcess(ctx, c, spec{c.Name, candidate.Place{Addr: addr, Process: i, Processes: n}})
		if err != nil {
			p.Stop()
			return nil, fmt.Errorf("%s, process %d: %w", c.Name, i, err)
		}
		p.all = append(p.all, w)
	}
	for i, w := range p.all {
		var ready string
		if err := w.dec.Decode(&ready); err != nil {
			p.Stop()
			return nil, fmt.Errorf("%s, process %d ended before it was ready; see above: %w", c.Name, i, err)
		}
	}
	return p, nil
}

// command is how a worker of a candidate is started: this program, unless the
// candidate has another.
func command(c *candidate.Candidate) ([]string, error) {
	if c.Command != nil {
		return c.Command()
	}
	self, err := os.Executable()
	return []string{self, Flag}, err
}

func startProcess(ctx context.Context, c *candidate.Candidate, s spec) (*process, error) {
	args, err := command(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := servers.Start(cmd); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in, enc: json.NewEncoder(in), dec: json.NewDecoder(bufio.NewReader(out))}
	return p, p.enc.Encode(s)
}

// headStart is how long after the order a run begins, so that all processes
// have read it by then.
const headStart = 30 * time.Millisecond

// Run makes all processes do the task at the same time. Within the result, Took is
// that of the slowest.
func (p *Processes) Run(ctx context.Context, t Task) (*Result, error) {
	t.At = time.Now().Add(headStart)
	for _, w := range p.all {
		if err := w.enc.Encode(t); err != nil {
			return nil, err
		}
	}
	sum := &Result{}
	for i, w := range p.all {
		var r Result
		if err := w.dec.Decode(&r); err != nil {
			return nil, fmt.Errorf("%s, process %d: %w", p.Candidate.Name, i, err)
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
		_ = w.in.Close()
	}
	for _, w := range p.all {
		late := time.AfterFunc(patience, func() { _ = w.cmd.Process.Kill() })
		_ = w.cmd.Wait()
		late.Stop()
	}
	p.all = nil
}

// Kill ends the processes at once, whatever they hold.
func (p *Processes) Kill() {
	for _, w := range p.all {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	}
	p.all = nil
}
