// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/bench/internal/candidate"
	"github.com/fencelock/fencelock/bench/internal/engine"
	"github.com/fencelock/fencelock/bench/internal/figure"
	"github.com/fencelock/fencelock/bench/internal/suite"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/zkstore"
)

// zkFigures measures what is promised of zkstore, beside the recipe of its client
// library, on an ensemble of three.
func zkFigures(ctx context.Context, e *suite.Env) (err error) {
	e.Start = engine.StartZooKeeper
	if e.Server, err = e.Start(ctx); err != nil {
		return err
	}
	defer e.Server.Stop()
	_, err = ask(ctx, e, []question{zkUncontended, zkContended, zkHeartbeats}, nil)
	return err
}

var zkMetrics = []string{suite.Rate, suite.P50, suite.P99, suite.CPU, suite.Allocs}

// zkUncontended is with one goroutine: with more, both measure the ensemble.
var zkUncontended = question{part: "uncontended", metrics: zkMetrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	ours, native := candidate.FencelockZK, candidate.ZKLock
	cells, err := e.Lasting(5, 700*time.Millisecond).Uncontended(ctx, []*candidate.Candidate{native, ours}, []int{1, 16})
	if err != nil {
		return nil, nil, err
	}
	return []figure.Figure{
		{Name: "zk-uncontended-vs-native", Value: cells.Ratio(suite.Goroutines(1), ours.Name, native.Name, suite.Rate), Goal: figure.AtLeast(1)},
		{Name: "zk-uncontended-vs-native-16", Value: cells.Ratio(suite.Goroutines(16), ours.Name, native.Name, suite.Rate)},
	}, cells, nil
}}

// zkContended is a crowd as services have it: some processes, some goroutines in each.
var zkContended = question{part: "processes", metrics: zkMetrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	ours, native := candidate.FencelockZK, candidate.ZKLock
	var crowds []suite.Crowd
	for _, goroutines := range []int{1, 8} {
		for _, c := range []*candidate.Candidate{native, ours} {
			crowds = append(crowds, suite.Crowd{Candidate: c, Processes: 4, Goroutines: goroutines})
		}
	}
	var all suite.Cells
	var figures []figure.Figure
	for i, name := range []string{"zk-contended-vs-native-alone", "zk-contended-vs-native"} {
		cells, err := e.Lasting(3, 1500*time.Millisecond).Contended(ctx, crowds[2*i:2*i+2])
		if err != nil {
			return nil, nil, err
		}
		f := figure.Figure{Name: name, Value: cells.Ratio(crowds[2*i].Case(), ours.Name, native.Name, suite.Rate), Goal: figure.AtLeast(1)}
		figures, all = append(figures, f), append(all, cells...)
	}
	return figures, all, nil
}}

// zkHeartbeats counts at the servers what one process sends while it holds a thousand
// leases: requests for each time that the core renews.
var zkHeartbeats = question{part: "holding", ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	const leases, beats = 1000, 4
	server, err := e.Start(ctx) // one without anybody else's connections
	if err != nil {
		return nil, nil, err
	}
	defer server.Stop()
	store, err := zkstore.New(strings.Split(server.Addr(), ","), nil)
	if err != nil {
		return nil, nil, err
	}
	defer store.Close()
	counted := &beatStore{Store: store, beat: make(chan struct{})}
	locks, err := fencelock.New(counted, &fencelock.Options{TTL: 9 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	defer locks.Close(ctx)
	for i := range leases {
		if _, err := locks.Mutex(fmt.Sprint("hold/", i)).Lock(ctx); err != nil {
			return nil, nil, err
		}
	}
	received := server.(*engine.ZooKeeper).Received
	wait := func(n int) error {
		for range n {
			select {
			case <-counted.beat:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	if err := wait(1); err != nil { // whatever came while the leases were taken is over
		return nil, nil, err
	}
	before := received()
	if err := wait(beats); err != nil {
		return nil, nil, err
	}
	per := float64(received()-before) / beats
	return []figure.Figure{{Name: "zk-heartbeats-1000-leases", Value: per, Goal: figure.AtMost(1)}}, nil, nil
}}

// beatStore tells of each renewal when it is done.
type beatStore struct {
	driver.Store
	beat chan struct{}
}

// Open implements driver.Store.
func (s *beatStore) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Life, error) {
	ses, life, err := s.Store.Open(ctx, req)
	return &beatSession{ses, s.beat}, life, err
}

type beatSession struct {
	driver.Session
	beat chan struct{}
}

// KeepAlive implements driver.Session.
func (s *beatSession) KeepAlive(ctx context.Context) (driver.Life, error) {
	life, err := s.Session.KeepAlive(ctx)
	select {
	case s.beat <- struct{}{}:
	default: // nobody counts yet
	}
	return life, err
}
