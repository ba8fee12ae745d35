// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/measure"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
)

// What the figures of several stores share.

var nativeMetrics = []string{suite.Rate, suite.P50, suite.P99, suite.CPU, suite.Allocs}

// askOn asks on a server that it starts and stops.
func askOn(ctx context.Context, e *suite.Env, start func(context.Context) (target.Server, error), questions []question) (err error) {
	e.Start = start
	e.Server, err = e.Start(ctx)
	if err != nil {
		return err
	}
	defer e.Server.Stop()
	_, err = ask(ctx, e, questions, nil)
	return err
}

// on is a server, and what is asked there.
type on struct {
	start     func(context.Context) (target.Server, error) // nil for questions that start their own
	questions []question
}

// asked is a set of figures whose selected questions are asked, each on its server.
func asked(set func() []on) func(context.Context, *suite.Env, selection) error {
	return func(ctx context.Context, e *suite.Env, only selection) error { return askSelected(ctx, e, only, set()) }
}

// askSelected asks the selected questions, each on its server. A server is not started
// without a question.
func askSelected(ctx context.Context, e *suite.Env, only selection, all []on) error {
	var questions []question
	for _, o := range all {
		questions = append(questions, o.questions...)
	}
	if _, err := only.of(questions); err != nil {
		return err
	}
	for _, o := range all {
		chosen := only.among(o.questions)
		var err error
		switch {
		case len(chosen) == 0:
		case o.start == nil:
			_, err = ask(ctx, e, chosen, nil)
		default:
			err = askOn(ctx, e, o.start, chosen)
		}
		if errors.Is(err, servers.ErrMissing) {
			fmt.Printf("%s: not measured: %v\n", chosen[0].gives()[0], err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// besideNative lets each crowd work, and the same crowd with the native lock.
func besideNative(native *candidate.Candidate, crowds ...suite.Crowd) measurement {
	return lasting(3, 1500*time.Millisecond, func(ctx context.Context, e *suite.Env) (all suite.Cells, err error) {
		for _, ours := range crowds {
			theirs := ours
			theirs.Candidate = native
			cells, err := e.Contended(ctx, []suite.Crowd{theirs, ours})
			if err == nil {
				err = excluded(cells.Of(ours.Case(), ours.Candidate.Name))
			}
			if err != nil {
				return nil, err
			}
			all = append(all, cells...)
		}
		return all, nil
	})
}

// excluded is an error if two workers held the lock at the same time. That is not a figure:
// measuring again must not make it better.
func excluded(cell *suite.Cell) error {
	if n := stat.Of(cell.Values(suite.Overlaps)).Max; n > 0 {
		return fmt.Errorf("%s: two held the lock at the same time, %v times", cell.Case, n)
	}
	return nil
}

// perKeepAlive holds a thousand leases in one client, and returns by how much count grows
// for each keep-alive that the client sends.
func perKeepAlive(ctx context.Context, store driver.Store, ttl time.Duration, count func(context.Context) (float64, error)) (per float64, err error) {
	const leases, keepAlives = 1000, 4
	counter := measure.NewCounter(store)
	locks, err := fencelock.New(counter, &fencelock.Options{TTL: ttl})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, locks.Close(context.WithoutCancel(ctx))) }()
	for i := range leases {
		if _, err := locks.Mutex(fmt.Sprint("hold/", i)).Lock(ctx); err != nil {
			return 0, err
		}
	}
	// From just after one keep-alive to just after another: what the leases cost is over.
	after := func(n int) (counted float64, sent int, err error) {
		if err := counter.Await(ctx, n); err != nil {
			return 0, 0, err
		}
		counted, err = count(ctx)
		return counted, counter.Renewals(), err
	}
	before, first, err := after(1)
	if err != nil {
		return 0, err
	}
	now, last, err := after(keepAlives)
	return (now - before) / float64(last-first), err
}
