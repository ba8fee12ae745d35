// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
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

// TestPicturesAreXML, whatever the numbers are.
func TestPicturesAreXML(t *testing.T) {
	c := []*Curve{{Name: Sessions, Server: "a <b>", Points: []Point{{10, []float64{7}}, {100, []float64{math.NaN()}}, {1000, []float64{8}}}}}
	rows := []FleetRow{{Setup: Setups[0].Name, Processes: 1000, Busy: 0.1, After: []int{1, 2, 3}}, {Setup: Setups[0].Name, Processes: 10_000, Busy: 0.5, After: []int{1, 2, 3}}}
	for name, svg := range map[string]string{"growth": GrowthPicture(c), "fleet": FleetPicture(rows)} {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, svg)
			}
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s: %s", name, svg)
		}
	}
}

// TestSetupsDiffer: a quorum carries everything on each node, shards and a cluster spread it.
func TestSetupsDiffer(t *testing.T) {
	units := []byte(`{"Units":[{"Server":"redis","Pair":20,"KeepAlive":10},{"Server":"cluster","Pair":20,"KeepAlive":10},{"Server":"quorum","Pair":100,"KeepAlive":50}]}`)
	busy := map[string]float64{}
	for _, s := range Setups {
		row, err := Simulate(units, s, 200)
		must.OK(t, err)
		busy[s.Name] = row.Busy
	}
	one, quorum, shards := busy[Setups[0].Name], busy[Setups[3].Name], busy[Setups[1].Name]
	if math.Abs(quorum-one) > 0.1*one {
		t.Errorf("one server is %v busy, a node of a quorum %v", one, quorum)
	}
	if shards >= one {
		t.Errorf("one server is %v busy, each of eight %v", one, shards)
	}
	if _, err := Simulate(units, Setup{server: "paper", masters: 1}, 1); err == nil {
		t.Error("a server without unit costs is simulated")
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
