// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// subjects say what grows and what is measured.
var subjects = []struct{ name, grows, cost string }{
	{HeldLocks, "locks held", "lock and unlock"},
	{Sessions, "sessions", "keep-alive"},
	{Waiters, "waiters on one name", "handoff"},
	{Readers, "readers of one name", "one more reader"},
}

// GrowthTable is the curves as Markdown, one row for each.
func GrowthTable(curves []*Curve) string {
	var sizes []int
	for n := 1; n <= 10_000_000; n *= 10 {
		sizes = append(sizes, n)
	}
	var b strings.Builder
	b.WriteString("| Server | What grows | Server time of | ")
	for _, n := range sizes {
		fmt.Fprintf(&b, "%s | ", short(float64(n)))
	}
	b.WriteString("Slope (range) |\n| --- | --- | --- |" + strings.Repeat(" ---: |", len(sizes)) + " ---: |\n")
	for _, s := range subjects {
		for _, c := range curves {
			if c.Name != s.name {
				continue
			}
			fmt.Fprintf(&b, "| %s | %s | %s |", c.Server, s.grows, s.cost)
			for _, n := range sizes {
				if v := c.usec(n); math.IsNaN(v) {
					b.WriteString(" |")
				} else {
					fmt.Fprintf(&b, " %s |", micros(v))
				}
			}
			slope := c.Slope()
			fmt.Fprintf(&b, " %.3f (%.3f to %.3f) |\n", slope.Median, slope.Min, slope.Max)
		}
	}
	return b.String()
}

func micros(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// GrowthPicture draws a panel for each of what grows.
func GrowthPicture(curves []*Curve) string {
	var panels []panel
	for _, s := range subjects {
		p := panel{title: s.cost, x: s.grows, y: "µs of server time"}
		for _, c := range curves {
			if c.Name != s.name {
				continue
			}
			l := line{name: c.Server}
			for _, point := range c.Points {
				l.x, l.y = append(l.x, float64(point.N)), append(l.y, c.usec(point.N))
			}
			p.lines = append(p.lines, l)
		}
		if len(p.lines) > 0 {
			panels = append(panels, p)
		}
	}
	return draw("Server time of one operation, over how many there are",
		"Both axes are logarithmic: a flat line is a cost that does not grow. The table below the picture has the numbers.", panels)
}

// Find returns a curve, or nil.
func Find(curves []*Curve, server, name string) *Curve {
	i := slices.IndexFunc(curves, func(c *Curve) bool { return c.Server == server && c.Name == name })
	if i < 0 {
		return nil
	}
	return curves[i]
}

// UnitsTable is the unit costs as Markdown, one row for each server.
func UnitsTable(units []*suite.Units) string {
	var b strings.Builder
	b.WriteString("| Server | Lock and unlock, busy | the same, idle | Reader | Handoff | Keep-alive | Reclaim, derived | Waiting claim, per second | Idle process, per second | Connections |\n" +
		"| --- |" + strings.Repeat(" ---: |", 9) + "\n")
	for _, u := range units {
		fmt.Fprintf(&b, "| %s, %s | %s | %s | %s | %s | %s | %s | %s | %s | %.1f |\n", u.Server, u.Version,
			micros(u.Pair), micros(u.Pair+u.Wake), micros(u.Reader), micros(u.Handoff), micros(u.KeepAlive), micros(u.Reclaim), micros(u.Waiting), micros(u.Connected), u.Connections)
	}
	b.WriteString("\n| Server | Lease | Session | Waiting claim | Process | Traffic of lock and unlock | of a handoff | of a keep-alive | of an idle process, per second |\n" +
		"| --- |" + strings.Repeat(" ---: |", 8) + "\n")
	for _, u := range units {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", u.Server,
			bytes(u.Lease), bytes(u.Session), bytes(u.Claim), bytes(u.Process), bytes(u.Traffic.Pair), bytes(u.Traffic.Handoff), bytes(u.Traffic.KeepAlive), bytes(u.Traffic.Connected))
	}
	return b.String()
}

// bytes is a size, a dash if it was not measured.
func bytes(v float64) string {
	switch {
	case v <= 0:
		return "–"
	case v < 10_000:
		return fmt.Sprintf("%.0f B", v)
	}
	return fmt.Sprintf("%.0f KB", v/1000)
}
