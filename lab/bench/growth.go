// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/scale"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
)

// growthPath is where the growth curves are kept.
var growthPath = filepath.Join("lab", "results", "scale", "growth.json")

// growthFile is what is written.
type growthFile struct{ Curves []*keptCurve }

// keptCurve is a curve and where it comes from: each may be measured again without the others.
type keptCurve struct {
	origin
	scale.Curve
}

// curves are those of all origins.
func (f *growthFile) curves() (all []*scale.Curve) {
	for _, c := range f.Curves {
		all = append(all, &c.Curve)
	}
	return all
}

// growing is a curve to measure, on Redis.
type growing struct {
	name    string
	sizes   []int
	label   func(n int) string
	measure func(e *suite.Env, ctx context.Context, sizes []int) (suite.Cells, error)
}

var decades = []int{10, 100, 1000, 10_000}

// growths are all curves.
var growths = []growing{
	{scale.HeldLocks, []int{1000, 10_000, 100_000, 1_000_000, 10_000_000}, suite.Names, growHeld},
	{scale.Sessions, decades, suite.Sessions, (*suite.Env).GrowSessions},
	{scale.Readers, append([]int{1}, decades...), suite.Readers, (*suite.Env).GrowReaders},
	{scale.Waiters, []int{1, 10, 100, 1000}, func(n int) string { return suite.Contending(n + 1) }, growContending},
}

func growHeld(e *suite.Env, ctx context.Context, sizes []int) (suite.Cells, error) {
	return e.GrowNames(ctx, []*candidate.Candidate{candidate.FencelockRueidis, candidate.BareRueidis}, sizes)
}

// growContending has one more session, which holds the lock.
func growContending(e *suite.Env, ctx context.Context, sizes []int) (suite.Cells, error) {
	contending := make([]int, len(sizes))
	for i, n := range sizes {
		contending[i] = n + 1
	}
	return e.SessionCrowd(ctx, []*candidate.Candidate{candidate.FencelockRueidis}, contending, time.Millisecond)
}

// writeGrowth measures the curves that are wanted, such as held-locks, and writes them beside those of before.
func writeGrowth(ctx context.Context, e *suite.Env, only selection) error {
	var f growthFile
	if err := readKept(growthPath, &f); err != nil {
		return err
	}
	for _, g := range growths {
		if !only.wants(g.name) {
			continue
		}
		curves, err := g.fill(ctx, *e)
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		for _, c := range curves {
			f.put(c)
			fmt.Println(c)
		}
		if err := writeKept(growthPath, f); err != nil {
			return err
		}
	}
	return nil
}

// fill measures one curve, and that of each other candidate in its cells.
func (g *growing) fill(ctx context.Context, e suite.Env) (curves []*scale.Curve, err error) {
	e.Start = target.StartRedis
	e.Server, err = e.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer e.Server.Stop()
	sizes := g.sizes
	if e.Scale != 0 && e.Scale < 1 {
		sizes = sizes[:2]
	}
	cells, err := g.measure(&e, ctx, sizes)
	if err != nil {
		return nil, err
	}
	for i, name := range cells.Candidates() {
		c := &scale.Curve{Name: g.name, Server: "redis"}
		if i > 0 {
			c.Server += ", " + name
		}
		for _, n := range sizes {
			c.Points = append(c.Points, scale.Point{N: n, Usec: cells.Of(g.label(n), name).Values(suite.ServerCPU)})
		}
		curves = append(curves, c)
	}
	return curves, nil
}

// put replaces a curve that this run measured, or adds it.
func (f *growthFile) put(c *scale.Curve) {
	measured := &keptCurve{thisOrigin(), *c}
	for i, old := range f.Curves {
		if old.Name == c.Name && old.Server == c.Server {
			f.Curves[i] = measured
			return
		}
	}
	f.Curves = append(f.Curves, measured)
}

// scaleFigures prints what lab/results/scale.md claims of growth on Redis, from the curves that are kept: measuring them takes a
// quarter of an hour and gigabytes (go run ./lab/bench -growth).
func scaleFigures(context.Context, *suite.Env) error {
	g, err := keptGrowth()
	if err != nil {
		return err
	}
	for _, c := range g.Curves {
		fmt.Printf("note: %s, %s: measured by %s on %s\n", c.Server, c.Name, c.Command, c.Machine)
	}
	for _, f := range growthFigures(g.curves()) {
		fmt.Println(f)
	}
	return nil
}

func growthFigures(curves []*scale.Curve) []figure.Figure {
	slope := func(name string) float64 {
		c := scale.Find(curves, "redis", name)
		if c == nil {
			return math.NaN()
		}
		fmt.Println(c)
		return c.Slope().Median
	}
	all := []figure.Figure{
		{Name: "scale-slope-held-locks", Value: slope(scale.HeldLocks), Goal: figure.AtMost(0.05)},
		{Name: "scale-slope-waiters", Value: slope(scale.Waiters), Goal: figure.AtMost(0.1)},
		{Name: "scale-slope-sessions", Value: slope(scale.Sessions), Goal: figure.AtMost(0.1)},
		{Name: "scale-slope-readers", Value: slope(scale.Readers)},
		{Name: "scale-keepalive-cpu-10k-sessions-percent", Value: math.NaN(), Goal: figure.AtMost(2)},
	}
	if c := scale.Find(curves, "redis", scale.Sessions); c != nil {
		if last := c.Points[len(c.Points)-1]; last.N == keptSessions {
			all[len(all)-1].Value = coreShare(stat.Median(last.Usec), keptSessions)
		}
	}
	return all
}
