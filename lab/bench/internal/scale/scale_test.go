// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// TestSlopes: the exponent of each repetition, whatever the machine's speed was in it.
func TestSlopes(t *testing.T) {
	flat := Curve{Points: []Point{{10, []float64{5, 9}}, {100, []float64{5, 9}}, {1000, []float64{5, 9}}}}
	if s := flat.Slope(); !near(s.Median, 0) || !near(s.Min, 0) || !near(s.Max, 0) {
		t.Errorf("a flat curve: %+v", s)
	}
	root := Curve{Points: []Point{{10, []float64{1, 10}}, {1000, []float64{10, 10}}}}
	if s := root.Slope(); !near(s.Max, 0.5) || !near(s.Min, 0) || !near(s.Median, math.Log(10/5.5)/math.Log(100)) {
		t.Errorf("a root and a flat one: %+v", s)
	}
	if s := (&Curve{Points: []Point{{10, []float64{1}}}}).Slope(); !math.IsNaN(s.Median) {
		t.Errorf("one point has the slope %+v", s)
	}
}

// TestWakingUpIsNoSlope: ten sessions, for each of which a server wakes up, do not hide that more cost more.
func TestWakingUpIsNoSlope(t *testing.T) {
	c := Curve{Name: Sessions, Points: []Point{{10, []float64{100}}, {100, []float64{1}}, {10_000, []float64{10}}}}
	if s := c.Slope(); !near(s.Median, 0.5) || !near(s.Min, 0.5) {
		t.Errorf("the cost is ten times that of a hundred sessions with ten thousand: %+v", s)
	}
	c.Name = Waiters
	if s := c.Slope(); s.Median > 0 {
		t.Errorf("other curves are fitted from their first point on: %+v", s)
	}
}

func TestGrowthTable(t *testing.T) {
	c := &Curve{Name: Waiters, Server: "redis", Points: []Point{{1, []float64{100}}, {10, []float64{100}}}}
	const want = "| redis | waiters on one name | handoff | 100 | 100 | | | | | | | 0.000 (0.000 to 0.000) |\n"
	if got := GrowthTable([]*Curve{c}); !strings.HasSuffix(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestPictureIsXML, whatever the numbers are.
func TestPictureIsXML(t *testing.T) {
	c := []*Curve{{Name: Sessions, Server: "a <b>", Points: []Point{{10, []float64{7}}, {100, []float64{math.NaN()}}, {1000, []float64{8}}}}}
	svg := GrowthPicture(c)
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, svg)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error(svg)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
