// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// process is a member of a fleet as its parent sees it.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  *json.Decoder
	errors bytes.Buffer
}

// fleet is several processes.
type fleet []*process

// launch starts the processes, which have the sessions of a size in equal parts.
func launch(cfg Config, s size) (fleet, error) {
	var f fleet
	var configs []any
	each := s.Sessions / s.Processes
	for i := range s.Processes {
		p, err := startMember()
		if err != nil {
			f.kill()
			return nil, err
		}
		one := cfg
		one.TTL, one.First, one.Sessions = s.TTL, i*each, each
		f, configs = append(f, p), append(configs, one)
	}
	_, err := f.sendEach(configs)
	if err != nil {
		f.kill()
	}
	return f, err
}

// memberProgram is the program of the members, this one if it is empty.
var memberProgram string

func startMember() (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if memberProgram != "" {
		self = memberProgram
	}
	p := &process{cmd: exec.Command(self, "member")}
	p.cmd.Stderr = &p.errors
	p.in, err = p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = json.NewDecoder(out)
	return p, servers.Start(p.cmd)
}

// ask sends a line and waits for the answer.
func (p *process) ask(what any) (r Reply, err error) {
	line, err := json.Marshal(what)
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	if err == nil {
		err = p.lines.Decode(&r)
	}
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	if err != nil {
		return r, fmt.Errorf("process %d: %w %s", p.cmd.Process.Pid, err, p.errors.String())
	}
	return r, nil
}

// send gives all processes the same order and waits for all of them.
func (f fleet) send(o Order) ([]Reply, error) {
	orders := make([]any, len(f))
	for i := range orders {
		orders[i] = o
	}
	return f.sendEach(orders)
}

func (f fleet) sendEach(lines []any) ([]Reply, error) {
	replies, failed := make([]Reply, len(f)), make([]error, len(f))
	var all sync.WaitGroup
	for i, p := range f {
		all.Go(func() { replies[i], failed[i] = p.ask(lines[i]) })
	}
	all.Wait()
	return replies, errors.Join(failed...)
}

// kill ends all processes as a crash does.
func (f fleet) kill() {
	for _, p := range f {
		_ = p.cmd.Process.Kill()
	}
	for _, p := range f {
		_ = p.cmd.Wait()
	}
}

// total adds up what the members report. Histograms are kept apart.
func total(replies []Reply) (t Reply, h []Histogram) {
	for _, r := range replies {
		t.Held, t.Lost, t.EndedSessions, t.Resumed = t.Held+r.Held, t.Lost+r.Lost, t.EndedSessions+r.EndedSessions, t.Resumed+r.Resumed
		t.FailedRenewal, t.Served = t.FailedRenewal+r.FailedRenewal, t.Served+r.Served
		t.LastResumed, t.LastServed = max(t.LastResumed, r.LastResumed), max(t.LastServed, r.LastServed)
		if r.FirstServed > 0 && (t.FirstServed == 0 || r.FirstServed < t.FirstServed) {
			t.FirstServed = r.FirstServed
		}
		if t.Why == "" {
			t.Why = r.Why
		}
		h = append(h, r.Arrivals)
	}
	return t, h
}

// await asks the members until they fulfil a condition.
func (f fleet) await(what string, most time.Duration, done func(Reply) bool) (Reply, []Histogram, error) {
	for late := time.Now().Add(most); ; time.Sleep(100 * time.Millisecond) {
		replies, err := f.send(Order{Op: "status"})
		t, h := total(replies)
		if err != nil || done(t) {
			return t, h, err
		}
		if time.Now().After(late) {
			t.Arrivals = Histogram{}
			return t, h, fmt.Errorf("%s: not within %v: %+v", what, most, t)
		}
	}
}
