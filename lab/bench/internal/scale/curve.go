// SPDX-License-Identifier: Apache-2.0

// Package scale has what lab/results/scale.md shows: growth curves with their slopes and their picture, and the tables of unit costs. Every function is a function of its arguments.
package scale

import (
	"fmt"
	"math"
	"strings"

	"github.com/fencelock/fencelock/lab/bench/internal/stat"
)

// The names of curves: what grows.
const (
	HeldLocks = "held-locks"
	Sessions  = "sessions"
	Waiters   = "waiters"
	Readers   = "readers"
)

// Curve is the processor time that a server spends on one operation, over how many there are of something.
type Curve struct {
	Name, Server string
	Points       []Point
}

// Point is the µs of each repetition at a size. The repetitions of a curve are numbered alike in all of its points.
type Point struct {
	N    int
	Usec []float64
}

// fitFrom is the size from which a curve is fitted, if that is not its first. Ten sessions leave the server idle between two calls, so that
// it has to wake up for each: that cost, three times that of a keep-alive, ends with a busy server and tilts the line by which it is to be
// seen whether more sessions cost more.
var fitFrom = map[string]int{Sessions: 100}

// fitted are the points of the line.
func (c *Curve) fitted() (points []Point) {
	for _, p := range c.Points {
		if p.N >= fitFrom[c.Name] {
			points = append(points, p)
		}
	}
	return points
}

// Slopes returns the slope of each repetition: the exponent of n by which the cost grows.
func (c *Curve) Slopes() []float64 {
	points := c.fitted()
	if len(points) < 2 {
		return nil
	}
	slopes := make([]float64, len(points[0].Usec))
	for i := range slopes {
		var n, usec []float64
		for _, p := range points {
			if i < len(p.Usec) {
				n, usec = append(n, float64(p.N)), append(usec, p.Usec[i])
			}
		}
		slopes[i] = stat.LogSlope(n, usec)
	}
	return slopes
}

// Slope is the slope of the line through the medians, which one slow repetition does not change, with what Slopes are
// between.
func (c *Curve) Slope() stat.Spread {
	s := stat.Of(c.Slopes())
	var n, usec []float64
	for _, p := range c.fitted() {
		n, usec = append(n, float64(p.N)), append(usec, stat.Median(p.Usec))
	}
	s.Median = stat.LogSlope(n, usec)
	return s
}

// String is one line for people.
func (c *Curve) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s:", c.Server, c.Name)
	for _, p := range c.Points {
		fmt.Fprintf(&b, "  %d: %.1f µs", p.N, stat.Median(p.Usec))
	}
	s := c.Slope()
	fmt.Fprintf(&b, "  slope %.3f (%.3f to %.3f)", s.Median, s.Min, s.Max)
	return b.String()
}

// usec is the median cost at a size, NaN where it was not measured.
func (c *Curve) usec(n int) float64 {
	for _, p := range c.Points {
		if p.N == n {
			return stat.Median(p.Usec)
		}
	}
	return math.NaN()
}
