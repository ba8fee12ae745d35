// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// Lines and bars have colors of a middle brightness, which can be read on a light
// background and on a dark one. Text needs more contrast and follows the browser's
// scheme. So does the background, because a site may use the other scheme.
var (
	ink   = color.RGBA{0x6e, 0x77, 0x81, 0xff}
	faint = color.NRGBA{0x6e, 0x77, 0x81, 0x50}
)

// colors are the same in all charts, so that a candidate is known again.
var colors = map[string]color.RGBA{
	"fencelock-rueidis": {0x1f, 0x77, 0xe0, 0xff},
	"fencelock-goredis": {0x17, 0xa2, 0xb8, 0xff},
	"fencelock-linger":  {0x6f, 0x42, 0xc1, 0xff},
	"bare-rueidis":      {0x6e, 0x77, 0x81, 0xff},
	"bare-goredis":      {0x9a, 0xa0, 0xa6, 0xff},
	"ping-pong":         {0x6e, 0x77, 0x81, 0xff},
	"channel":           {0x6e, 0x77, 0x81, 0xff},
	"rueidislock":       {0xd9, 0x6b, 0x20, 0xff},
	"rueidislock-fast":  {0xc9, 0x3c, 0x5a, 0xff},
	"redsync-rueidis":   {0x4f, 0x9d, 0x3a, 0xff},
	"redsync-goredis":   {0x8d, 0x8f, 0x1d, 0xff},
	"redsync-tuned":     {0x2e, 0x8b, 0x6f, 0xff},
	"redislock":         {0x9c, 0x5b, 0xc4, 0xff},
	"redislock-tuned":   {0xc0, 0x6a, 0xa8, 0xff},
	"redisson":          {0xb0, 0x8d, 0x00, 0xff},
	"redisson-fair":     {0x9c, 0x6b, 0x4a, 0xff},
	// On other servers there are few of them, and ours is blue.
	"redsync-quorum":          {0x4f, 0x9d, 0x3a, 0xff},
	"redsync-quorum-failfast": {0x2e, 0x8b, 0x6f, 0xff},
	"etcd-concurrency":        {0xd9, 0x6b, 0x20, 0xff},
	"zk-lock":                 {0xd9, 0x6b, 0x20, 0xff},
	"curator":                 {0xb0, 0x8d, 0x00, 0xff},
	"pg-advisory-lock":        {0xd9, 0x6b, 0x20, 0xff},
	"mariadb-get-lock":        {0xd9, 0x6b, 0x20, 0xff},
	"mysql-get-lock":          {0xd9, 0x6b, 0x20, 0xff},
	"memcached-add":           {0xd9, 0x6b, 0x20, 0xff},
}

// colorOf is blue for ours, grey for bare candidates, and another color for each other
// candidate; TestColors checks that every candidate has one.
func colorOf(name string) color.RGBA {
	if c, ok := colors[name]; ok {
		return c
	}
	if strings.HasPrefix(name, "fencelock-") {
		return colors["fencelock-rueidis"]
	}
	return ink
}

// bare reports whether a candidate is what others are compared with.
func bare(name string) bool {
	c, err := candidate.Named(name)
	return err == nil && !c.Waits
}

const (
	chartWidth  = 22 * vg.Centimeter
	chartHeight = 11 * vg.Centimeter
	chartMargin = vg.Length(10) // points
)

// chart draws the part.
func (p *Part) chart() ([]byte, error) {
	c := newPlot(p.caption()+" (log scale)", p.part.Chart.Metric)
	var err error
	if p.part.Chart.Bars {
		err = p.bars(c)
	} else {
		err = p.lines(c)
	}
	if err != nil {
		return nil, err
	}
	wholeSteps(&c.Y)
	canvas := vgsvg.New(chartWidth, chartHeight)
	c.Draw(draw.Crop(draw.New(canvas), chartMargin, -chartMargin, chartMargin, -chartMargin))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, err
	}
	return withHead(withFonts(b.Bytes()), p.caption(), p.description()), nil
}

// readings describe the metrics that are drawn, and which direction is better.
var readings = map[string]string{
	suite.Rate:      "acquisitions per second, higher is better",
	suite.P99:       "p99 latency in µs, lower is better",
	suite.Handoff50: "median handoff in µs, lower is better",
	suite.Commands:  "server commands per acquisition, lower is better",
	suite.Sent:      "server commands in two seconds, lower is better",
	suite.PerSecond: "server commands per second, lower is better",
	suite.Usec:      "server time per acquisition in µs, lower is better",
	suite.ServerCPU: "server processor time per acquisition in µs, lower is better",
}

// caption is the alternative text of the chart, and the beginning of its title.
func (p *Part) caption() string { return p.Title + ": " + readings[p.part.Chart.Metric] }

// description describes the chart to a screen reader.
func (p *Part) description() string {
	shape := "A line"
	if p.part.Chart.Bars {
		shape = "A bar"
	}
	return fmt.Sprintf("%s for each candidate (%s) in each case (%s), on a logarithmic scale. The page has a table with the numbers.",
		shape, strings.Join(p.Cells.Candidates(), ", "), strings.Join(p.Cells.Cases(), "; "))
}

// chartStyle overrides the color of text, which the canvas writes into each element.
const chartStyle = `<style>
text { fill: #1f2328 !important; }
.card { fill: #ffffff; stroke: #d0d7de; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 !important; }
.card { fill: #0d1117; stroke: #30363d; }
}
</style>
`

// withHead adds what the canvas cannot write: title and description, the style, and
// the background.
func withHead(svg []byte, title, description string) []byte {
	head := fmt.Sprintf("<title id=\"title\">%s</title>\n<desc id=\"desc\">%s</desc>\n%s<rect x=\"0.5\" y=\"0.5\" width=\"%.2f\" height=\"%.2f\" rx=\"7\" class=\"card\"/>\n<g ",
		html.EscapeString(title), html.EscapeString(description), chartStyle, chartWidth.Points()-1, chartHeight.Points()-1)
	svg = bytes.Replace(svg, []byte("<svg "), []byte(`<svg role="img" aria-labelledby="title desc" `), 1)
	return bytes.Replace(svg, []byte("<g "), []byte(head), 1)
}

// withFonts names the fonts that browsers have, after the one it was drawn for.
func withFonts(svg []byte) []byte {
	return bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif"))
}

// face is the font of all texts.
func face(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
}

func newPlot(title, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text, p.Y.Label.Text = title, y
	p.Title.Padding = vg.Points(6)
	p.Title.TextStyle.Color, p.Legend.TextStyle.Color = ink, ink
	p.Title.TextStyle.Font, p.Legend.TextStyle.Font = face(13), face(10)
	p.Legend.Padding, p.Legend.ThumbnailWidth = vg.Points(3), vg.Points(16)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Color, a.Label.TextStyle.Color, a.Tick.Color, a.Tick.Label.Color = ink, ink, ink, ink
		a.Label.TextStyle.Font, a.Tick.Label.Font = face(11), face(9.5)
	}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, powers{}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = faint, nil
	grid.Horizontal.Width = vg.Points(0.5)
	p.Add(grid)
	p.Legend.Top, p.Legend.XOffs = true, 0
	return p
}

// lines draws a line for each candidate over the numbers its cases begin with.
func (p *Part) lines(c *plot.Plot) error {
	c.X.Label.Text = p.part.Chart.X
	c.X.Scale, c.X.Tick.Marker = plot.LogScale{}, at(p.numbers())
	for _, name := range p.Cells.Candidates() {
		var points plotter.XYs
		for _, kase := range p.Cells.Cases() {
			x, y := leading(kase), p.Cells.Of(kase, name).Median(p.part.Chart.Metric)
			if y > 0 { // not missing, and there is no logarithm of 0
				points = append(points, plotter.XY{X: x, Y: y})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, dots.Color = colorOf(name), colorOf(name)
		line.Width, dots.Shape, dots.Radius = vg.Points(1.5), draw.CircleGlyph{}, vg.Points(2.5)
		if bare(name) {
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
		}
		c.Add(line, dots)
		c.Legend.Add(name, line, dots)
	}
	besideLegend(c, p.Cells.Candidates())
	return nil
}

// bars draws a group of bars for each case.
func (p *Part) bars(c *plot.Plot) error {
	cases, names := p.Cells.Cases(), p.Cells.Candidates()
	width := chartWidth * 0.66 / vg.Length(len(cases)*(len(names)+1))
	lowest := math.Inf(1)
	for _, cell := range p.Cells {
		if y := cell.Median(p.part.Chart.Metric); y > 0 {
			lowest = min(lowest, y)
		}
	}
	floor := math.Pow(10, math.Floor(math.Log10(lowest)))
	for i, name := range names {
		values, zero := make(plotter.Values, len(cases)), make([]bool, len(cases))
		for k, kase := range cases {
			values[k] = floor // what is missing has no bar, and 0 is written as a number
			y := p.Cells.Of(kase, name).Median(p.part.Chart.Metric)
			zero[k] = y == 0
			if y > 0 {
				values[k] = y
			}
		}
		b, err := plotter.NewBarChart(values, width)
		if err != nil {
			return err
		}
		b.Color, b.LineStyle.Width = colorOf(name), 0
		b.Offset = width * (vg.Length(i) - vg.Length(len(names)-1)/2)
		c.Add(logBars{b, floor, zero})
		c.Legend.Add(name, b)
	}
	for k := range cases {
		cases[k] = strings.Replace(cases[k], ", ", "\n", 1)
	}
	c.NominalX(cases...)
	c.Y.Min = floor
	besideLegend(c, names)
	return nil
}

// besideLegend makes room for the legend to the right of the data.
func besideLegend(c *plot.Plot, names []string) {
	c.Legend.Left = false
	var legend vg.Length
	for _, n := range names {
		legend = max(legend, c.Legend.TextStyle.Width(n))
	}
	legend += c.Legend.ThumbnailWidth + 2*chartMargin
	const axis = 60 // points for the labels of the other axis
	share := float64(legend / (chartWidth - axis - 2*chartMargin - legend))
	if x := &c.X; x.Scale == (plot.LogScale{}) {
		x.Max *= math.Pow(x.Max/x.Min, share)
	} else {
		x.Max += (x.Max - x.Min) * share
	}
}

// wholeSteps widens an axis to 1, 2 or 5 times a power of ten at both ends, so that small
// differences do not fill the chart and no bar ends at its edge.
func wholeSteps(a *plot.Axis) {
	low, high := math.Inf(-1), math.Inf(1)
	for e := math.Floor(math.Log10(a.Min)); e <= math.Ceil(math.Log10(a.Max)); e++ {
		for _, step := range []float64{1, 2, 5} {
			v := step * math.Pow(10, e)
			if v <= a.Min {
				low = max(low, v)
			}
			if v >= a.Max {
				high = min(high, v)
			}
		}
	}
	a.Min, a.Max = low, high
}

// numbers are those the cases begin with.
func (p *Part) numbers() []float64 {
	var numbers []float64
	for _, kase := range p.Cells.Cases() {
		numbers = append(numbers, leading(kase))
	}
	return numbers
}

// leading is the number that a case begins with.
func leading(kase string) float64 {
	first, _, _ := strings.Cut(kase, " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// at marks an axis at some numbers.
type at []float64

// Ticks implements plot.Ticker.
func (a at) Ticks(_, _ float64) (ticks []plot.Tick) {
	for _, v := range a {
		ticks = append(ticks, plot.Tick{Value: v, Label: compact(v)})
	}
	return ticks
}

// powers marks an axis at powers of ten, and at 2 and 5 between them if there are
// few.
type powers struct{}

// Ticks implements plot.Ticker.
func (powers) Ticks(low, high float64) (ticks []plot.Tick) {
	steps := []float64{1}
	if high/low <= 1000 {
		steps = []float64{1, 2, 5}
	}
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, step := range steps {
			v := step * math.Pow(10, e)
			ticks = append(ticks, plot.Tick{Value: v, Label: compact(v)})
		}
	}
	return ticks
}

// compact prints 1000000 as 1M, and 1024 as it is.
func compact(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e6, "M"}, {1e3, "k"}} {
		if v >= unit.size && math.Mod(v, unit.size) == 0 {
			return fmt.Sprintf("%.4g%s", v/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.4g", v)
}

// logBars are bars that begin at the floor: on a logarithmic axis there is no 0.
type logBars struct {
	*plotter.BarChart
	floor float64
	zero  []bool
}

// Plot implements plot.Plotter.
func (b logBars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, v := range b.Values {
		left := x(float64(i)) + b.Offset - b.Width/2
		bottom, top := y(b.floor), y(v)
		if b.zero[i] {
			style := p.X.Tick.Label
			style.XAlign, style.YAlign = draw.XCenter, draw.YBottom
			c.FillText(style, vg.Point{X: left + b.Width/2, Y: bottom + 2}, "0")
			continue
		}
		c.FillPolygon(b.Color, c.ClipPolygonY([]vg.Point{{X: left, Y: bottom}, {X: left, Y: top}, {X: left + b.Width, Y: top}, {X: left + b.Width, Y: bottom}}))
	}
}

// DataRange implements plot.DataRanger.
func (b logBars) DataRange() (xmin, xmax, ymin, ymax float64) {
	s := stat.Of(b.Values)
	return -0.5, float64(len(b.Values)) - 0.5, b.floor, max(s.Max, b.floor*10)
}
