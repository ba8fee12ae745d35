// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
)

// TestMain makes the test program a worker when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Flag {
		if err := Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestProcesses: two processes with two goroutines each take turns on a lock that
// excludes only inside a process, and the overlaps between them are found.
func TestProcesses(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // a worker that hangs is killed then
	defer cancel()
	p, err := Start(ctx, candidate.Channel, "", 2)
	must.OK(t, err)
	defer p.Stop()
	each, overlaps := make([]float64, 4), 0
	for range attempts { // on a busy machine a worker may come too late at first
		r, err := p.Run(ctx, Task{Name: "x", Goroutines: 2, Section: time.Millisecond, Turns: true, For: 100 * time.Millisecond})
		if err != nil || r.Err != "" {
			t.Fatal(err, r.Err)
		}
		if len(r.Each) != 4 || r.Ops != len(r.Turns) {
			t.Fatalf("%d turns and %d operations by %d goroutines", len(r.Turns), r.Ops, len(r.Each))
		}
		if r.Cost.CPU == 0 || r.Cost.Mallocs == 0 {
			t.Errorf("it cost nothing: %+v", r.Cost)
		}
		h := Between(r.Turns, 4, 0, math.MaxInt64)
		overlaps += h.Overlaps
		for worker, n := range h.Each {
			each[worker] += n
		}
		if overlaps > 0 && slices.Min(each) > 0 {
			return
		}
	}
	t.Errorf("turns of the workers %v, overlaps %d; want all of them above 0", each, overlaps)
}

// attempts is how often something is tried that a busy machine may keep from
// happening.
const attempts = 50

// TestWorkerFails: a worker that cannot do its work says so.
func TestWorkerFails(t *testing.T) {
	if p, err := Start(t.Context(), &candidate.Candidate{Name: "unknown"}, "", 1); err == nil {
		p.Stop()
		t.Error("a candidate that does not exist was started")
	}
}

func TestRun(t *testing.T) {
	lockers, err := candidate.Channel.Open(t.Context(), candidate.Place{}, 2)
	must.OK(t, err)
	r := Run(t.Context(), lockers, Task{Name: "x", Goroutines: 3, Turns: true, For: 50 * time.Millisecond}, 0)
	if r.Err != "" || len(r.Each) != 6 {
		t.Fatalf("%d goroutines, error %q", len(r.Each), r.Err)
	}
	if h := Between(r.Turns, 6, 0, math.MaxInt64); h.Overlaps != 0 {
		t.Errorf("%d overlaps on a lock of one process", h.Overlaps)
	}
	if r := Run(t.Context(), lockers, Task{Name: "held", Hold: 100}, 0); r.Err != "" || r.Ops != 100 {
		t.Errorf("hold: %d, %q", r.Ops, r.Err)
	}
	// They are held: a client that wants one waits unsuccessfully, which is not a failure.
	if r := Run(t.Context(), lockers, Task{Name: "held/99", Goroutines: 1, For: 10 * time.Millisecond}, 0); r.Ops != 0 || r.Err != "" {
		t.Errorf("a held lock was taken %d times, error %q", r.Ops, r.Err)
	}
	for range attempts {
		fresh := Run(t.Context(), lockers, Task{Name: "held", Own: true, Fresh: true, Goroutines: 1, For: 10 * time.Millisecond}, 0)
		if fresh.Err != "" {
			t.Fatalf("fresh names: %s", fresh.Err)
		}
		if fresh.Ops > 2*len(lockers) { // without a fresh number these names would be held
			return
		}
	}
	t.Error("fresh names: no worker locked twice")
}
