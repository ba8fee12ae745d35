// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/scale"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// scaleFigures prints what docs/scale.md claims of growth on Redis, from the curves that are kept: measuring them takes a
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
