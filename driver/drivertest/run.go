// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Run checks a store with one subtest per case, each on its own harness.
// newHarness may use t.Cleanup to close what it opened.
func Run(t *testing.T, newHarness func(t *testing.T) *Harness) {
	t.Helper()
	run(t, func(t *testing.T, f func(*testing.T, *Harness)) { f(t, newHarness(t)) })
}

// RunInBubble is Run with each case, newHarness included, inside its own
// testing/synctest bubble. Leave Harness.Elapse nil there unless the store has
// its own clock.
func RunInBubble(t *testing.T, newHarness func(t *testing.T) *Harness) {
	t.Helper()
	run(t, func(t *testing.T, f func(*testing.T, *Harness)) {
		synctest.Test(t, func(t *testing.T) { f(t, newHarness(t)) })
	})
}

// run takes the surroundings of a case as a function, because a bubble must lie
// inside the subtest and around the harness.
func run(t *testing.T, within func(*testing.T, func(*testing.T, *Harness))) {
	t.Helper()
	var report Report
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			within(t, func(t *testing.T, h *Harness) {
				r := c.Check(t.Context(), h)
				report.add(r)
				r.reportTo(t)
			})
		})
	}
	t.Log(report.String())
}

// RunCases checks some cases with one subtest each, as many at a time as there are
// functions that make a harness: nearly all the time of a case on a real server is
// waiting. A function is called for one case after the other, and the next time when
// what the case gave to t.Cleanup is done, so that it can stand for a server which some
// cases stop. It may return the same harness each time.
//
// The report has the cases that were run, in the order given: the flag -run may choose
// among the subtests.
func RunCases(t *testing.T, cases []Case, newHarness ...func(t *testing.T) *Harness) *Report {
	t.Helper()
	results := make([]*Result, len(cases))
	// The last in the list take longest, so it begins with them.
	var left atomic.Int64
	left.Store(int64(len(cases)))
	var working sync.WaitGroup
	for _, harness := range newHarness {
		working.Go(func() {
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				// Subtests of several goroutines instead of parallel ones: how many
				// run at once depends on the servers, not on the processors.
				t.Run(cases[i].Name, func(t *testing.T) {
					r := cases[i].checkAgain(t.Context(), harness(t), t.Logf)
					results[i] = &r
					r.reportTo(t)
				})
			}
		})
	}
	working.Wait()
	report := &Report{}
	for _, r := range results {
		if r != nil {
			report.add(*r)
		}
	}
	t.Log(report.String())
	return report
}

// reportTo makes a test fail or skip as the case did.
func (r *Result) reportTo(t *testing.T) {
	t.Helper()
	for _, f := range r.Failures {
		t.Error(f)
	}
	if r.Skipped != "" {
		t.Skip(r.Skipped)
	}
}

// Check runs all cases, one after the other, on one harness. It needs no
// testing.T, so that a deployed store can be checked. The error joins all
// failures, each a *Failure, and the context's error if that ended the check
// early; the report is never nil.
func Check(ctx context.Context, h *Harness) (*Report, error) {
	report := &Report{}
	for _, c := range Cases() {
		if ctx.Err() != nil {
			stopped := fmt.Errorf("drivertest: stopped before %s: %w", c.Name, context.Cause(ctx))
			return report, errors.Join(report.Err(), stopped)
		}
		report.add(c.Check(ctx, h))
	}
	return report, report.Err()
}

// maxTries is how often a case is tried that fails because it was held up.
const maxTries = 3

// checkAgain is Check for a server in real time. A case that was behind by more than the
// slack when it failed cannot judge: on a machine with other load a hold of two seconds may
// have ended before the call that was to find it. It is tried again with longer durations,
// because a machine that is slow once is slow for all tries of a second or two. It fails if
// it fails each time, or once without being behind.
func (c Case) checkAgain(ctx context.Context, h *Harness, logf func(string, ...any)) Result {
	stretch := 1.0
	for try := 1; ; try++ {
		r := c.check(ctx, h, stretch)
		if len(r.Failures) == 0 || r.behind <= r.slack || try == maxTries {
			return r
		}
		stretch = stretched(stretch, r.behind, r.slack)
		logf("try %d failed when it was %v behind, with a slack of %v: %v", try, r.behind, r.slack, r.Failures[0])
	}
}

// maxStretch bounds how long a case may become.
const maxStretch = 8

// stretched returns by how much a case is longer than the harness asks for, after a try
// that was behind: its slack shall be twice of what was missing.
func stretched(stretch float64, behind, slack time.Duration) float64 {
	return min(maxStretch, stretch*2*float64(behind)/float64(slack))
}

// Check runs one case. The harness can be used for the next case afterwards.
func (c Case) Check(ctx context.Context, h *Harness) Result { return c.check(ctx, h, 1) }

// check is Check with the durations of the harness stretched.
func (c Case) check(ctx context.Context, h *Harness, stretch float64) Result {
	r := Result{Case: c}
	store, err := h.store(0)
	if err != nil {
		r.Failures = append(r.Failures, c.failure("", fmt.Sprintf("opening the store: %v", err)))
		return r
	}
	r.Server = store.Caps().Engine
	if r.Skipped = c.unmet(h, store.Caps()); r.Skipped != "" {
		return r
	}
	t := newScene(ctx, c, h, store, stretch)
	t.play()
	// A harness may have more slack, because its server ends sessions late. They must not be kept alive late: cases
	// leave a quarter of the TTL for that.
	r.Failures, r.behind, r.slack = t.failures, t.behind(), min(t.slack, t.short/4)
	return r
}
