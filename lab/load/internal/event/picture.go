// SPDX-License-Identifier: Apache-2.0

package event

import (
	"fmt"
	"strings"
)

// The picture of a histogram, in points.
const (
	wide, high           = 760, 300
	left, right          = 60, 16
	top, bottom          = 44, 44
	plotWide, plotHigh   = wide - left - right, high - top - bottom
	secondsBetweenLabels = 5
)

const style = `<style>
text { fill: #1f2328; font: 12px sans-serif; }
.card { fill: #ffffff; stroke: #d0d7de; }
.bar { fill: #1f77e0; }
.mean { stroke: #d96b20; stroke-dasharray: 5 4; }
.grid { stroke: #6e7781; stroke-opacity: 0.4; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.card { fill: #0d1117; stroke: #30363d; }
}
</style>
`

// picture draws the arrivals of a result.
func picture(r *Result) string {
	var total, peak int64
	for _, n := range r.Arrivals.Bins {
		total, peak = total+n, max(peak, n)
	}
	bins := len(r.Arrivals.Bins)
	if bins == 0 || peak == 0 {
		return ""
	}
	mean := float64(total) / float64(bins)
	y := func(v float64) float64 { return top + plotHigh*(1-v/float64(peak)) }
	x := func(bin float64) float64 { return left + plotWide*bin/float64(bins) }
	title := fmt.Sprintf("Requests in 100 ms after %d sessions restarted at once (TTL %v)", r.Size.Sessions, r.Size.TTL)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title desc">`+"\n", wide, high)
	fmt.Fprintf(&b, "<title id=\"title\">%s</title>\n<desc id=\"desc\">A histogram over %.0f seconds. The fullest bin has %d requests, %.1f times the mean of %.0f.</desc>\n",
		title, float64(bins)*binWidth.Seconds(), peak, r.Arrivals.peakVsMean(), mean)
	fmt.Fprintf(&b, "%s<rect x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"7\" class=\"card\"/>\n<text x=\"%d\" y=\"26\">%s</text>\n", style, wide-1, high-1, left, title)
	for _, v := range []float64{0, float64(peak) / 2, float64(peak)} {
		fmt.Fprintf(&b, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>\n", left, wide-right, y(v), y(v), left-6, y(v)+4, v)
	}
	for i, n := range r.Arrivals.Bins {
		if n > 0 {
			fmt.Fprintf(&b, "<rect class=\"bar\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", x(float64(i)), y(float64(n)), plotWide/float64(bins)*0.9, y(0)-y(float64(n)))
		}
	}
	fmt.Fprintf(&b, "<line class=\"mean\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">mean</text>\n", left, wide-right, y(mean), y(mean), wide-right-4, y(mean)-5)
	perSecond := 1 / binWidth.Seconds()
	for s := 0; float64(s)*perSecond <= float64(bins); s += secondsBetweenLabels {
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d s</text>\n", x(float64(s)*perSecond), high-bottom+18, s)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
