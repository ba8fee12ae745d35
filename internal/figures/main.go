// SPDX-License-Identifier: Apache-2.0

// Command figures measures what the documents claim, and prints each as
//
//	figure NAME VALUE GOAL
//
// It fails if a figure misses its goal or cannot be measured.
package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/internal/measure"
)

const (
	simSeeds = 2000
	leases   = 1_000_000
)

// figure is one measured number with what it should be.
type figure struct {
	name string
	// value is nil if it could not be measured.
	value *float64
	// rel and goal say what it should be: "<=" 600.
	rel  string
	goal float64
}

func (f figure) met() bool {
	if f.value == nil {
		return false
	}
	c := cmp.Compare(*f.value, f.goal)
	return f.rel == "<=" && c <= 0 || f.rel == ">=" && c >= 0 || f.rel == "=" && c == 0
}

// String is the line for people and programs.
func (f figure) String() string {
	value := "missing"
	if f.value != nil {
		value = number(*f.value)
	}
	return fmt.Sprintf("figure %s %s %s%v", f.name, value, f.rel, f.goal)
}

// number prints whole numbers as such and others with two digits.
func number(v float64) string {
	if v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// run measures what depends on the load first and alone.
func run(ctx context.Context) error {
	var missed []string
	show := func(figures []figure) {
		for _, f := range figures {
			fmt.Println(f)
			if !f.met() {
				missed = append(missed, f.name)
			}
		}
	}
	show(handover(ctx))
	show(held(ctx))
	children := []child{sim, zoo}
	shown := make([][]figure, len(children))
	var wg sync.WaitGroup
	for i, c := range children {
		wg.Go(func() { shown[i] = c.run(ctx) })
	}
	wg.Wait()
	for _, figures := range shown {
		show(figures)
	}
	if len(missed) > 0 {
		return fmt.Errorf("these miss their goal: %s", strings.Join(missed, ", "))
	}
	return nil
}

func handover(ctx context.Context) []figure {
	f := figure{name: "local-handover-ratio", rel: ">=", goal: 0.3}
	h, err := measure.Handover(ctx, 64, 7, 200*time.Millisecond)
	if complain("hand-over", err) {
		f.value = &h.Ratio
		fmt.Println("hand-over:", h)
	}
	return []figure{f}
}

func held(ctx context.Context) []figure {
	const shards = 1
	figures := []figure{
		{name: "lease-bytes", rel: "<=", goal: 600},
		{name: "lease-goroutines", rel: "<=", goal: shards},
		{name: "keepalive-calls", rel: "=", goal: 1},
	}
	h, err := measure.Leases(ctx, leases, shards)
	if complain("leases", err) {
		bytes, goroutines := math.Round(h.Bytes), float64(h.Goroutines)
		fmt.Printf("million: %v in %.1f s\n", h, h.Took.Seconds())
		figures[0].value, figures[1].value, figures[2].value = &bytes, &goroutines, &h.KeepAlives
	}
	return figures
}

// child is a command whose summary line has two figures.
type child struct {
	name    string
	args    []string
	summary *regexp.Regexp
	figures [2]figure
}

var (
	sim = child{"sim", []string{"test", "./internal/sim", "-run", "^TestSchedules$", "-sim.seeds=" + strconv.Itoa(simSeeds), "-count=1", "-v"},
		regexp.MustCompile(`(?m)^sim: (\d+) schedules, (\d+) violations`),
		[2]figure{{name: "sim-schedules", rel: ">=", goal: simSeeds}, {name: "sim-violations", rel: "=", goal: 0}}}
	zoo = child{"zoo", []string{"run", "./internal/zoo"},
		regexp.MustCompile(`(?m)^zoo: (\d+) caught, (\d+) survived`),
		[2]figure{{name: "zoo-caught", rel: ">=", goal: 15}, {name: "zoo-survived", rel: "=", goal: 0}}}
)

// run runs the child with the go command and reads its summary.
func (c child) run(ctx context.Context) []figure {
	figures := c.figures
	out, err := exec.CommandContext(ctx, "go", c.args...).CombinedOutput()
	m := c.summary.FindStringSubmatch(string(out))
	if m == nil {
		complain(c.name, fmt.Errorf("no summary line: %w\n%s", err, tail(string(out))))
		return figures[:]
	}
	for i := range figures {
		v, err := strconv.ParseFloat(m[i+1], 64)
		if complain(c.name, err) {
			figures[i].value = &v
		}
	}
	if err != nil || !figures[1].met() {
		complain(c.name, fmt.Errorf("%v\n%s", err, tail(string(out))))
		if figures[1].met() {
			// It says that all is well and fails all the same: believe the failure.
			figures[1].value = nil
		}
	}
	return figures[:]
}

// complain prints an error and says whether there was none.
func complain(what string, err error) (ok bool) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "figures: %s: %v\n", what, err)
	}
	return err == nil
}

// tail returns the last lines of an output, and all that say what went wrong.
func tail(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	end := max(0, len(lines)-20)
	var kept []string
	for i, l := range lines {
		if i >= end || strings.Contains(l, "NOT CAUGHT") || strings.Contains(l, "VIOLATION") {
			kept = append(kept, l)
		}
	}
	return strings.Join(kept, "\n")
}
