// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/lab/internal/deployment"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
)

// pretend is a schedule of n cells, each of which takes its number of seconds; what
// comes of it is returned by verdict, given the number and how many others run.
func pretend(n, parallel int, budget time.Duration, verdict func(seed uint64, beside int) cell.Status) (*schedule, *[]string) {
	e, _ := deployment.Named("redis")
	k, _ := fault.Named("calm")
	s := &schedule{parallel: parallel, budget: budget}
	for i := range n {
		s.cells = append(s.cells, cell.Cell{Deployment: e, Fault: k, Seed: uint64(n - i)}) // the long ones first
	}
	under := make(chan bool, n)
	var printed []string
	s.print = func(line string) { printed = append(printed, line) }
	s.run = func(_ context.Context, c cell.Cell) cell.Result {
		under <- true
		beside := len(under) - 1
		time.Sleep(time.Duration(c.Seed) * time.Second)
		<-under
		return cell.Result{Deployment: c.Deployment.Name, Fault: c.Fault.Name, Seed: c.Seed, Status: verdict(c.Seed, beside), Took: time.Duration(c.Seed) * time.Second}
	}
	return s, &printed
}

func seeds(results []cell.Result) string {
	text := ""
	for _, r := range results {
		text += fmt.Sprintf("%d %s, ", r.Seed, r.Status)
	}
	return text
}

// TestSideBySide: the order of results is that of the cells, and a cell that another one
// disturbed is tried again alone.
func TestSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, printed := pretend(4, 2, time.Hour, func(seed uint64, beside int) cell.Status {
			if seed == 2 && beside > 0 {
				return cell.NotRun
			}
			return cell.Held
		})
		began := time.Now()
		results := s.all(t.Context())
		if got, want := seeds(results), "4 held, 3 held, 2 held, 1 held, "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		// 4 and 1 on the one side, 3 and 2 on the other, then 2 alone.
		if got := time.Since(began); got != 7*time.Second {
			t.Errorf("it took %v, want 7s", got)
		}
		text := strings.Join(*printed, "\n")
		// 2 and 1 end at the same instant: whichever is reported first, the other is still under way.
		spoilt := strings.Contains(text, "tried again alone at the end (5s gone, about 3s left)") ||
			strings.Contains(text, "tried again alone at the end (5s gone, about 4s left)")
		if !spoilt || !strings.Contains(text, "  4/4") {
			t.Errorf("the progress is not right:\n%s", text)
		}
	})
}

// TestSpoiltTwice: a second try is the last.
func TestSpoiltTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := pretend(2, 1, time.Hour, func(uint64, int) cell.Status { return cell.NotRun })
		began := time.Now()
		if got, want := seeds(s.all(t.Context())), "2 not run, 1 not run, "; got != want || time.Since(began) != 6*time.Second {
			t.Errorf("got %s in %v, want %s in 6s", got, time.Since(began), want)
		}
	})
}

// TestBudget: what would begin too late is reported, in its place, and is not run.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := pretend(4, 1, 6*time.Second, func(uint64, int) cell.Status { return cell.Held })
		results := s.all(t.Context())
		if got, want := seeds(results), "4 held, 3 held, 2 not run, 1 not run, "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if results[3].Reason != "the time of the run was over" {
			t.Errorf("it says %q", results[3].Reason)
		}
		if got := s.left(); got > 4*time.Second {
			t.Errorf("about %v left, though the time is over", got)
		}
	})
}

// TestBudgetOfABusyMachine: a run whose cells take longer than thought goes on until the least number has run, and does not
// go on forever.
func TestBudgetOfABusyMachine(t *testing.T) {
	for least, want := range map[int]string{
		0: "4 held, 3 not run, 2 not run, 1 not run, ",
		2: "4 held, 3 held, 2 not run, 1 not run, ",
		9: "4 held, 3 held, 2 held, 1 not run, ", // after 9s more than three budgets are gone
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := pretend(4, 1, 2900*time.Millisecond, func(uint64, int) cell.Status { return cell.Held })
			s.least = least
			if got := seeds(s.all(t.Context())); got != want {
				t.Errorf("least %d: got %s, want %s", least, got, want)
			}
		})
	}
}

// TestBudgetOfWhatDoesNotApply: that a cell does not apply is known without time.
func TestBudgetOfWhatDoesNotApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := pretend(2, 1, time.Second, func(uint64, int) cell.Status { return cell.Held })
		s.cells[1].Fault, _ = fault.Named("failover")
		run := s.run
		s.run = func(ctx context.Context, c cell.Cell) cell.Result {
			if c.Applies() {
				return run(ctx, c)
			}
			return cell.Run(ctx, c)
		}
		if got, want := seeds(s.all(t.Context())), "2 held, 1 n/a, "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestInterrupted: what did not begin is left out; a part is no matrix.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, _ := pretend(3, 1, time.Hour, func(uint64, int) cell.Status { return cell.Held })
	s.run = func(_ context.Context, c cell.Cell) cell.Result {
		cancel()
		return cell.Result{Seed: c.Seed, Status: cell.NotRun}
	}
	if got, want := seeds(s.all(ctx)), "3 not run, "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestGravestFirst: of a cell that failed what must hold is shown, however much else
// came before.
func TestGravestFirst(t *testing.T) {
	s, printed := pretend(1, 1, time.Hour, nil)
	s.run = func(_ context.Context, c cell.Cell) cell.Result {
		r := cell.Result{Status: cell.Failed, Must: []check.Property{check.F}}
		for range 20 {
			r.Violations = append(r.Violations, check.Violation{Check: "D8", Property: check.O, Text: "overtaken"})
		}
		r.Violations = append(r.Violations, check.Violation{Check: "D5", Property: check.F, Text: "gone"})
		return r
	}
	s.all(t.Context())
	if len(*printed) != 11 || !strings.Contains((*printed)[1], "D5 (F): gone") {
		t.Errorf("it says\n%s", strings.Join(*printed, "\n"))
	}
}
