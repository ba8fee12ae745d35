// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/measure"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// coreFigures measures what the documents claim about the library without a server. It
// fails if a figure misses its goal or cannot be measured. What depends on the load is
// measured first and alone.
func coreFigures(ctx context.Context, _ *suite.Env) error {
	var missed []string
	show := func(figures []figure.Figure) {
		for _, f := range figures {
			fmt.Println(f)
			if !f.Met() {
				missed = append(missed, f.Name)
			}
		}
	}
	// A ratio of speeds: as with the other comparisons, a goal that is missed is a
	// figure, and only a value below the floor fails.
	for _, f := range localHandoff(ctx) {
		fmt.Println(f)
		if !(f.Value >= handoffFloor) { // NaN too
			missed = append(missed, f.Name)
		}
	}
	show(heldLocally(ctx))
	commands := []command{simulator, mutants}
	shown := make([][]figure.Figure, len(commands))
	var wg sync.WaitGroup
	for i, c := range commands {
		wg.Go(func() { shown[i] = c.run(ctx) })
	}
	wg.Wait()
	for _, figures := range shown {
		show(figures)
	}
	if len(missed) > 0 {
		return fmt.Errorf("these figures miss their goal: %s", strings.Join(missed, ", "))
	}
	return nil
}

// handoffFloor is half of the goal: 0.20 was measured beside other load.
const handoffFloor = 0.15

func localHandoff(ctx context.Context) []figure.Figure {
	f := figure.Figure{Name: "local-handoff-ratio", Value: math.NaN(), Goal: figure.AtLeast(0.3)}
	h, err := measure.Handoff(ctx, 64, 7, 200*time.Millisecond)
	if noError("local handoff", err) {
		f.Value = h.Ratio
		fmt.Println("handoff:", h)
	}
	return []figure.Figure{f}
}

func heldLocally(ctx context.Context) []figure.Figure {
	const leases, shards = 1_000_000, 1
	bytes := figure.Figure{Name: "lease-bytes", Value: math.NaN(), Goal: figure.AtMost(600)}
	goroutines := figure.Figure{Name: "lease-goroutines", Value: math.NaN(), Goal: figure.AtMost(shards)}
	keepAlives := figure.Figure{Name: "keepalive-calls", Value: math.NaN(), Goal: figure.Exactly(1)}
	h, err := measure.Leases(ctx, leases, shards)
	if noError("leases", err) {
		fmt.Printf("million: %v in %.1f s\n", h, h.Took.Seconds())
		bytes.Value, goroutines.Value, keepAlives.Value = math.Round(h.Bytes), float64(h.Goroutines), h.KeepAlives
	}
	return []figure.Figure{bytes, goroutines, keepAlives}
}

// command is a go command that prints figures.
type command struct {
	name    string
	args    []string
	figures []figure.Figure // those it must print; the last is about what went wrong
}

var (
	simulator = command{"sim", []string{"test", "./lab/sim", "-run", "^TestSchedules$", "-sim.seeds=2000", "-count=1", "-v"},
		[]figure.Figure{{Name: "sim-schedules", Goal: figure.AtLeast(2000)}, {Name: "sim-violations", Goal: figure.Exactly(0)}}}
	mutants = command{"mutants", []string{"run", "./lab/mutants", "-all", "-one-of", "4"},
		[]figure.Figure{{Name: "mutants-run", Goal: figure.AtLeast(140)}, {Name: "mutants-survived", Goal: figure.Exactly(0)}}}
)

// run runs the command and returns its figures.
func (c command) run(ctx context.Context) []figure.Figure {
	output, err := exec.CommandContext(ctx, "go", c.args...).CombinedOutput()
	figures, met := c.read(string(output), err)
	if err != nil || !met {
		noError(c.name, fmt.Errorf("go %s: %v\n%s", strings.Join(c.args, " "), err, tail(string(output))))
	}
	return figures
}

// read finds the figures in the output of the command, and reports whether all of them
// meet their goals. failed is the error of the command.
func (c command) read(output string, failed error) (figures []figure.Figure, met bool) {
	found := figure.Find(output)
	figures, met = slices.Clone(c.figures), true
	for i := range figures {
		f := &figures[i]
		f.Value = math.NaN()
		if at := slices.IndexFunc(found, func(g figure.Figure) bool { return g.Name == f.Name }); at >= 0 {
			f.Value = found[at].Value
		}
		met = met && f.Met()
	}
	if failed != nil && met {
		// The figures are fine and the command failed anyway: trust the failure.
		figures[len(figures)-1].Value, met = math.NaN(), false
	}
	return figures, met
}

// noError prints an error, and reports whether there was none.
func noError(what string, err error) bool {
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %s: %v\n", what, err)
	}
	return err == nil
}

// tail returns the last lines of an output, and all that name a failure.
func tail(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	end := max(0, len(lines)-20)
	var kept []string
	for i, l := range lines {
		if i >= end || strings.Contains(l, "NOT KILLED") || strings.Contains(l, "VIOLATION") {
			kept = append(kept, l)
		}
	}
	return strings.Join(kept, "\n")
}
