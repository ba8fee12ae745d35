// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// panel is one diagram of a picture. Both axes are logarithmic.
type panel struct {
	title, x, y string
	lines       []line
}

type line struct {
	name string
	x, y []float64
}

// colors can be read on a light background and on a dark one. A name has the same color in all panels.
var colors = []string{"#1f77e0", "#d96b20", "#4f9d3a", "#9c5bc4", "#b08d00", "#c93c5a"}

const (
	panelWidth, panelHeight = 360.0, 250.0
	plotLeft, plotTop       = 56.0, 34.0
	plotWidth, plotHeight   = 280.0, 160.0
	legendRow               = 18.0
)

// draw draws panels in two columns, with a legend below them.
func draw(title, description string, panels []panel) string {
	names := namesOf(panels)
	height := math.Ceil(float64(len(panels))/2)*panelHeight + legendRow*math.Ceil(float64(len(names))/4) + 20
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 740 %.0f" font-family="system-ui, sans-serif" font-size="12" role="img" aria-labelledby="title desc">`+"\n", height)
	fmt.Fprintf(&b, "<title id=\"title\">%s</title>\n<desc id=\"desc\">%s</desc>\n", html.EscapeString(title), html.EscapeString(description))
	b.WriteString("<style>text { fill: #1f2328; } .card { fill: #ffffff; stroke: #d0d7de; } .axis { stroke: #6e7781; stroke-opacity: 0.5; } .line { fill: none; stroke-width: 2; }\n" +
		"@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .card { fill: #0d1117; stroke: #30363d; } }</style>\n")
	fmt.Fprintf(&b, `<rect class="card" x="0.5" y="0.5" width="739" height="%.0f" rx="7"/>`+"\n", height-1)
	for i, p := range panels {
		fmt.Fprintf(&b, `<g transform="translate(%.0f %.0f)">`+"\n", float64(i%2)*panelWidth+6, float64(i/2)*panelHeight)
		p.draw(&b, names)
		b.WriteString("</g>\n")
	}
	for i, name := range names {
		x, y := 30+float64(i%4)*175, math.Ceil(float64(len(panels))/2)*panelHeight+legendRow*float64(i/4)+8
		fmt.Fprintf(&b, `<line class="line" stroke="%s" x1="%.0f" y1="%.0f" x2="%.0f" y2="%.0f"/><text x="%.0f" y="%.0f">%s</text>`+"\n",
			colors[i%len(colors)], x, y-4, x+20, y-4, x+26, y, html.EscapeString(name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func namesOf(panels []panel) (names []string) {
	seen := map[string]bool{}
	for _, p := range panels {
		for _, l := range p.lines {
			if !seen[l.name] {
				seen[l.name] = true
				names = append(names, l.name)
			}
		}
	}
	return names
}

func (p *panel) draw(b *strings.Builder, names []string) {
	x, y := p.axes()
	fmt.Fprintf(b, `<text x="%.0f" y="20" font-weight="bold">%s</text>`+"\n", plotLeft, html.EscapeString(p.title))
	for _, tick := range x.ticks() {
		at := plotLeft + plotWidth*x.share(tick)
		fmt.Fprintf(b, `<line class="axis" x1="%.1f" y1="%.0f" x2="%.1f" y2="%.0f"/><text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`+"\n",
			at, plotTop, at, plotTop+plotHeight, at, plotTop+plotHeight+16, short(tick))
	}
	for _, tick := range y.ticks() {
		at := plotTop + plotHeight*(1-y.share(tick))
		fmt.Fprintf(b, `<line class="axis" x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f"/><text x="%.0f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			plotLeft, at, plotLeft+plotWidth, at, plotLeft-6, at+4, short(tick))
	}
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" text-anchor="middle">%s</text><text x="%.0f" y="%.0f">%s</text>`+"\n",
		plotLeft+plotWidth/2, plotTop+plotHeight+34, html.EscapeString(p.x), plotLeft+4, plotTop+14, html.EscapeString(p.y))
	for _, l := range p.lines {
		var points []string
		for i := range l.x {
			if share := y.share(l.y[i]); !math.IsNaN(share) {
				points = append(points, fmt.Sprintf("%.1f,%.1f", plotLeft+plotWidth*x.share(l.x[i]), plotTop+plotHeight*(1-min(1, max(0, share)))))
			}
		}
		color := 0
		for i, name := range names {
			if name == l.name {
				color = i % len(colors)
			}
		}
		fmt.Fprintf(b, `<polyline class="line" stroke="%s" points="%s"/>`+"\n", colors[color], strings.Join(points, " "))
	}
}

// axis is from low to high.
type axis struct{ low, high float64 }

func (p *panel) axes() (x, y axis) {
	x, y = axis{math.Inf(1), 0}, axis{math.Inf(1), 0}
	for _, l := range p.lines {
		for i := range l.x {
			x.low, x.high = min(x.low, l.x[i]), max(x.high, l.x[i])
			if l.y[i] > 0 {
				y.low, y.high = min(y.low, l.y[i]), max(y.high, l.y[i])
			}
		}
	}
	y.low = math.Pow(10, math.Floor(math.Log10(y.low)))
	y.high = max(10*y.low, math.Pow(10, math.Ceil(math.Log10(y.high))))
	return x, y
}

// share is where a value is: 0 at the low end, 1 at the high end.
func (a axis) share(v float64) float64 {
	return math.Log(max(v, a.low)/a.low) / math.Log(a.high/a.low)
}

// ticks are powers of ten.
func (a axis) ticks() (all []float64) {
	for v := math.Pow(10, math.Ceil(math.Log10(a.low)-1e-9)); v <= a.high*1.0001; v *= 10 {
		all = append(all, v)
	}
	return all
}

// short writes a number as 10k or 2M.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", round3(v/1e6))
	case v >= 1e4:
		return fmt.Sprintf("%gk", round3(v/1e3))
	}
	return fmt.Sprintf("%g", round3(v))
}

func round3(v float64) float64 { return math.Round(v*1000) / 1000 }
