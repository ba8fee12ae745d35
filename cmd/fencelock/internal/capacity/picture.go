// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"math"
	"strings"
)

// Picture draws a plan as SVG: what takes the servers' time now, and how long a lock takes if the load
// grows and the servers do not.
func Picture(k Kind, u Units, p Plan) string {
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 360" font-family="system-ui, sans-serif" font-size="13" role="img" aria-labelledby="title desc">` + "\n")
	fmt.Fprintf(&b, "<title id=\"title\">%s: %d processes, %.0f acquisitions per second</title>\n", k.Name, p.Load.Processes, p.Load.Rate)
	fmt.Fprintf(&b, "<desc id=\"desc\">Bars: which part of the servers' time each kind of work takes, %.0f %% in all. Line: the p99 of lock and unlock over the load, up to %.0f times the planned load.</desc>\n",
		100*p.Utilization, mostGrowth)
	b.WriteString("<style>text { fill: #1f2328; } .card { fill: #ffffff; stroke: #d0d7de; } .bar { fill: #1f77e0; } .line { fill: none; stroke: #1f77e0; stroke-width: 2; } " +
		".axis { stroke: #6e7781; stroke-opacity: 0.5; } .full { stroke: #c93c5a; }\n" +
		"@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .card { fill: #0d1117; stroke: #30363d; } }</style>\n" +
		`<rect class="card" x="0.5" y="0.5" width="719" height="359" rx="7"/>` + "\n")
	drawShares(&b, k, p)
	drawGrowth(&b, k, u, p)
	b.WriteString("</svg>\n")
	return b.String()
}

const left, width = 190.0, 440.0

// drawShares draws a bar for each share, as a part of what all servers have.
func drawShares(b *strings.Builder, k Kind, p Plan) {
	all := k.cores() * float64(p.Masters)
	fmt.Fprintf(b, `<text x="14" y="24" font-weight="bold">%s, %s, %.0f %% busy</text>`+"\n", k.Name, p.Layout, 100*p.Utilization)
	y := 40.0
	for _, s := range p.Shares {
		long := width * min(1, s.Cores/all)
		fmt.Fprintf(b, `<text x="14" y="%.0f">%s</text><rect class="bar" x="%.0f" y="%.0f" width="%.1f" height="11"/>`+"\n", y+10, s.What, left, y, max(0.5, long))
		fmt.Fprintf(b, `<text x="%.1f" y="%.0f">%.2g %%</text>`+"\n", left+6+long, y+10, 100*s.Cores/all)
		y += 18
	}
	x := left + width*Busy
	fmt.Fprintf(b, `<line class="axis" x1="%.0f" y1="34" x2="%.0f" y2="%.0f" stroke-dasharray="4"/><text x="%.0f" y="%.0f">planned: at most %.0f %%</text>`+"\n",
		x, x, y, x-60, y+14, 100*Busy)
}

// mostGrowth is how far the line goes.
const mostGrowth = 4.0

// drawGrowth draws the p99 of lock and unlock over the load, with the servers of the plan.
func drawGrowth(b *strings.Builder, k Kind, u Units, p Plan) {
	const top, bottom = 200.0, 310.0
	fmt.Fprintf(b, `<text x="14" y="%.0f" font-weight="bold">lock and unlock, p99</text>`+"\n", top-8)
	most := 6 * p.P99
	full := mostGrowth + 1.0
	var points []string
	for i := 0.0; i <= 100; i++ {
		grown := mostGrowth * i / 100
		at := compute(k, u, p.Load.times(grown), p.Masters)
		if at.Utilization >= mostBusy {
			full = grown
			break
		}
		y := bottom - (bottom-top)*math.Min(1, at.P99/most)
		points = append(points, fmt.Sprintf("%.1f,%.1f", left+width*i/100, y))
	}
	fmt.Fprintf(b, `<polyline class="line" points="%s"/>`+"\n", strings.Join(points, " "))
	fmt.Fprintf(b, `<line class="axis" x1="%.0f" y1="%.0f" x2="%.0f" y2="%.0f"/>`+"\n", left, bottom, left+width, bottom)
	for i := 0.0; i <= mostGrowth; i++ {
		fmt.Fprintf(b, `<text x="%.0f" y="%.0f" text-anchor="middle">%.0f ×</text>`+"\n", left+width*i/mostGrowth, bottom+16, i)
	}
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" text-anchor="middle">load</text><text x="14" y="%.0f">%.0f µs as planned</text>`+"\n",
		left+width/2, bottom+34, bottom-(bottom-top)/6, p.P99)
	if full <= mostGrowth {
		x := left + width*full/mostGrowth
		fmt.Fprintf(b, `<line class="full" stroke-dasharray="4" x1="%.0f" y1="%.0f" x2="%.0f" y2="%.0f"/><text x="%.0f" y="%.0f">full</text>`+"\n", x, top, x, bottom, x+4, top+12)
	}
}

// times is the load of a fleet that has grown. How much contention there is stays.
func (l Load) times(grown float64) Load {
	l.Processes = max(1, int(math.Round(float64(l.Processes)*grown)))
	l.Held, l.Waiting = int(float64(l.Held)*grown), int(float64(l.Waiting)*grown)
	l.Rate *= grown
	return l
}
