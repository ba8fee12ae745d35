// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/lab/torture/internal/cell"
)

// schedule decides which cell runs when. Cells mostly wait, so some run side by
// side; each has its own servers, ports, folders and clocks. A cell that was not
// run, because the machine was too busy or a port was taken, is tried once more,
// alone, when all others are over: at once it would meet the same conditions.
type schedule struct {
	cells    []cell.Cell
	parallel int
	budget   time.Duration
	least    int // on a busy machine the run goes on until so many cells have run, for up to three budgets
	run      func(context.Context, cell.Cell) cell.Result
	print    func(string)

	began    time.Time
	mu       sync.Mutex
	next     int
	done     []*cell.Result // in the order of cells; nil if it did not begin
	again    []int          // to be tried once more
	finished int
	// spent is the time of the cells that ran, ran how many there were.
	spent time.Duration
	ran   int
	// decided is how many of them came to a result.
	decided int
}

// all runs the cells and returns what came of them, in their order.
func (s *schedule) all(ctx context.Context) []cell.Result {
	s.began, s.done = time.Now(), make([]*cell.Result, len(s.cells))
	var workers sync.WaitGroup
	for range s.parallel {
		workers.Go(func() {
			for i, ok := s.take(ctx); ok; i, ok = s.take(ctx) {
				s.finish(i, s.run(ctx, s.cells[i]), true)
			}
		})
	}
	workers.Wait()
	for len(s.again) > 0 && ctx.Err() == nil && !s.over() {
		i := s.again[0]
		s.again = s.again[1:]
		s.finish(i, s.run(ctx, s.cells[i]), false)
	}
	var results []cell.Result
	for i, r := range s.done {
		switch {
		case r != nil:
			results = append(results, *r)
		case ctx.Err() == nil && !s.cells[i].Applies():
			results = append(results, s.run(ctx, s.cells[i])) // takes no time, and says why
		case ctx.Err() == nil:
			c := s.cells[i]
			results = append(results, cell.Result{Deployment: c.Deployment.Name, Fault: c.Fault.Name, Seed: c.Seed, Status: cell.NotRun, Reason: "the time of the run was over"})
		}
	}
	return results
}

// take gives out the next cell, unless the run or its time is over.
func (s *schedule) take(ctx context.Context) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil || s.next == len(s.cells) || s.over() {
		return 0, false
	}
	s.next++
	return s.next - 1, true
}

// over reports whether the time of the run is over. s.mu must be held, unless no cell runs.
func (s *schedule) over() bool {
	gone := time.Since(s.began)
	return gone > s.budget && (s.decided >= s.least || gone > 3*s.budget)
}

// finish notes a result and reports how far the run is.
func (s *schedule) finish(i int, r cell.Result, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[i] = &r
	more := ""
	if first && r.Status == cell.NotRun {
		s.again = append(s.again, i)
		more = ", tried again alone at the end"
	} else {
		s.finished++
	}
	if r.Status != cell.NotApplicable {
		s.spent, s.ran = s.spent+r.Took, s.ran+1
	}
	if r.Status != cell.NotApplicable && r.Status != cell.NotRun {
		s.decided++
	}
	s.print(fmt.Sprintf("%3d/%d %5.1fs %-14s %-20s %-16s %s%s (%v gone, about %v left)", s.finished, len(s.cells), r.Took.Seconds(), r.Column(), r.Fault,
		r.Status, r.Reason, more, time.Since(s.began).Round(time.Second), s.left().Round(time.Second)))
	for n, v := range r.Gravest() {
		if r.Status == cell.Failed && n < 10 {
			s.print(fmt.Sprintf("        %s", v))
		}
	}
}

// left estimates the rest: the cells that apply take as long as those before did,
// side by side, and those to be tried again one after the other. Those that are
// under way count as half done. The budget bounds it.
func (s *schedule) left() time.Duration {
	if s.ran == 0 {
		return 0
	}
	mean := s.spent / time.Duration(s.ran)
	var side time.Duration
	for i, c := range s.cells {
		switch {
		case s.done[i] != nil || !c.Applies():
		case i < s.next:
			side += mean / 2
		default:
			side += mean
		}
	}
	left := side/time.Duration(s.parallel) + mean*time.Duration(len(s.again))
	return min(left, max(s.budget-time.Since(s.began), 0)+mean)
}

// printLine prints a line of progress.
func printLine(text string) { fmt.Println(text) }
