// SPDX-License-Identifier: Apache-2.0

package event

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/lab/internal/rig"
)

// fleet is several processes.
type fleet []*rig.Child

// launch starts the processes, which have the sessions of a size in equal parts.
func launch(cfg Config, s size) (fleet, error) {
	var f fleet
	var configs []any
	each := s.Sessions / s.Processes
	for i := range s.Processes {
		p, err := rig.Start(context.Background(), rig.Command{Name: fmt.Sprint("process ", i), Program: memberProgram, Args: []string{MemberCommand}})
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

// ask sends a line and waits for the answer.
func ask(p *rig.Child, what any) (r Reply, err error) {
	if err := p.Ask(what, &r, 0); err != nil {
		return r, err
	}
	if r.Error != "" {
		return r, fmt.Errorf("%s: %s", p.Name, r.Error)
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
		all.Go(func() { replies[i], failed[i] = ask(p, lines[i]) })
	}
	all.Wait()
	return replies, errors.Join(failed...)
}

// kill ends all processes as a crash does.
func (f fleet) kill() {
	for _, p := range f {
		p.Signal(syscall.SIGKILL) // all of them before one is waited for
	}
	for _, p := range f {
		p.Kill()
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

// await asks the members until they fulfill a condition.
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
