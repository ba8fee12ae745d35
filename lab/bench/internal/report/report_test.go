// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

func samples(rates ...float64) (s []suite.Sample) {
	for _, r := range rates {
		s = append(s, suite.Sample{suite.Rate: r})
	}
	return s
}

// measured is a part with two cases; the peer is missing in the second.
func measured(bars bool) *Part {
	return NewPart(&suite.Part{
		Name: "uncontended", Title: "Nobody waits", Text: "What is done.", Metrics: []string{suite.Rate, suite.P50}, Ratio: suite.Rate,
		Chart: suite.Chart{Metric: suite.Rate, X: "goroutines", Bars: bars},
	}, suite.Cells{
		{Case: "1 goroutines", Candidate: candidate.BareRueidis.Name, Samples: samples(100, 120, 110)},
		{Case: "1 goroutines", Candidate: candidate.FencelockRueidis.Name, Samples: samples(50, 60, 99)},
		{Case: "1 goroutines", Candidate: candidate.RedsyncRueidis.Name, Samples: samples(0, 0, 0)},
		{Case: "1024 goroutines", Candidate: candidate.BareRueidis.Name, Samples: samples(1000)},
		{Case: "1024 goroutines", Candidate: candidate.FencelockRueidis.Name, Samples: samples(2000)},
	})
}

func TestRows(t *testing.T) {
	p := measured(false)
	rows := Rows(p.Cells, p.part.Metrics, p.ratio())
	for i, want := range [][]string{
		{"case", "candidate", "× bare", "op/s", "min..max", "p50 µs"},
		{"1 goroutines", "bare-rueidis", "", "110", "100..120", ""},
		{"1 goroutines", "fencelock-rueidis", "0.50", "60", "50..99", ""},
	} {
		if !slices.Equal(rows[i], want) {
			t.Errorf("row %d: %q, want %q", i, rows[i], want)
		}
	}
	p.Cells = append(p.Cells, &suite.Cell{Case: "1024 goroutines", Candidate: "redislock", Failed: "out of luck"})
	failed := Rows(p.Cells, p.part.Metrics, p.ratio())[6]
	if want := []string{"1024 goroutines", "redislock", "", "", "", "failed: out of luck"}; !slices.Equal(failed, want) {
		t.Errorf("a failed one: %q, want %q", failed, want)
	}
	if got := rows[5][2]; got != "2" {
		t.Errorf("ratio of the last row: %q, want 2", got)
	}
}

// TestFailedCell: whatever a failure says, the page has one line for it, with as many
// cells as any other row.
func TestFailedCell(t *testing.T) {
	p := measured(false)
	reason := "mvn: exit status 1\n[ERROR] a|b <c> `d` *e*" + strings.Repeat(" and more", 100)
	p.Cells = append(p.Cells, &suite.Cell{Case: "1 goroutines", Candidate: "curator", Failed: reason})
	page := string((&Report{Suite: "zk", Parts: []*Part{p}}).page())
	_, rest, ok := strings.Cut(page, "| 1 goroutines | curator | ")
	if !ok {
		t.Fatalf("no row:\n%s", page)
	}
	row, _, _ := strings.Cut(rest, "\n")
	if want := "|  |  |  | failed: mvn: exit status 1 \\[ERROR] a\\|b &lt;c> \\`d\\` \\*e\\* and more"; !strings.HasPrefix("| "+row, want) {
		t.Errorf("the row goes on with %q, want %q", row, want)
	}
	if !strings.HasSuffix(row, "… |") || len(row) > 200 {
		t.Errorf("the reason was not shortened: %q", row)
	}
}

// TestPageNamesCommit: what was measured can be checked out again.
func TestPageNamesCommit(t *testing.T) {
	r := &Report{Suite: "redis", Server: "Redis 7"}
	if page := string(r.page()); strings.Contains(page, "commit") {
		t.Errorf("a commit that is not known is named:\n%s", page)
	}
	r.Machine.Commit = "abc with uncommitted changes"
	if page := string(r.page()); !strings.Contains(page, "What was measured is commit abc with uncommitted changes.") {
		t.Errorf("the page does not name the commit:\n%s", page)
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 2: "2", 0.456: "0.46", 12.34: "12.3", 123.4: "123", 45678.9: "45679", math.Inf(1): "",
	} {
		if got := Short(v); got != want {
			t.Errorf("Short(%v) = %q, want %q", v, got, want)
		}
	}
	if got := Short(math.NaN()); got != "" {
		t.Errorf("Short(NaN) = %q", got)
	}
}

// TestWrite: the page leads to files that are there, the numbers can be read back,
// and the charts fit a light and a dark page. Drawn again from the numbers, they are the same.
func TestWrite(t *testing.T) {
	for _, bars := range []bool{false, true} {
		dir := t.TempDir()
		r := &Report{Suite: "redis", Server: "Redis 7", Command: "go run ./lab/bench", Machine: ThisMachine(), Parts: []*Part{measured(bars)}}
		must.OK(t, r.Write(dir))
		page, err := os.ReadFile(filepath.Join(dir, "redis", "README.md"))
		must.OK(t, err)
		for _, want := range []string{"![Nobody waits: acquisitions per second, higher is better](uncontended.svg)", "| 1 goroutines | fencelock-rueidis | 0.50 |", "Redis 7 on ", candidate.FencelockRueidis.Settings} {
			if !strings.Contains(string(page), want) {
				t.Errorf("the page has no %q:\n%s", want, page)
			}
		}
		numbers, err := os.ReadFile(filepath.Join(dir, "redis", "results.json"))
		must.OK(t, err)
		var back Report
		must.OK(t, json.Unmarshal(numbers, &back))
		if got := back.Parts[0].Cells.Of("1 goroutines", "fencelock-rueidis").Values(suite.Rate); !slices.Equal(got, []float64{50, 60, 99}) {
			t.Errorf("samples read back: %v", got)
		}
		chart := filepath.Join(dir, "redis", "uncontended.svg")
		checkChart(t, chart)
		before, err := os.ReadFile(chart)
		must.OK(t, err)
		must.OK(t, os.Remove(chart))
		must.OK(t, Redraw(dir, &suite.Suite{Name: "redis", Parts: []*suite.Part{r.Parts[0].part}}))
		if after, err := os.ReadFile(chart); err != nil || string(after) != string(before) {
			t.Errorf("the chart drawn again differs, or there is none: %v", err)
		}
	}
}

func checkChart(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	must.OK(t, err)
	for _, want := range []string{
		"fencelock-rueidis", "Nobody waits", "#6E7781", `role="img"`, "<desc id=\"desc\">", "prefers-color-scheme: dark",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the chart has no %q", want)
		}
	}
	for _, bad := range []string{"#FFFFFF", "#000000", "NaN", "Inf", "#-"} {
		if strings.Contains(string(text), bad) {
			t.Errorf("the chart has %s: it cannot be read on every background", bad)
		}
	}
	for dec := xml.NewDecoder(strings.NewReader(string(text))); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the chart is no XML: %v", err)
		}
	}
}

func TestLeading(t *testing.T) {
	if got := leading("1000000 held"); got != 1e6 {
		t.Errorf("leading = %v", got)
	}
	if got := leading("none"); !math.IsNaN(got) {
		t.Errorf("leading of a case without a number = %v, want NaN", got)
	}
	if got := compact(1e6) + " " + compact(1024) + " " + compact(16) + " " + compact(0.1); got != "1M 1024 16 0.1" {
		t.Errorf("compact: %s", got)
	}
}

// TestReadings: every metric that is drawn is described.
func TestReadings(t *testing.T) {
	for _, s := range suite.All {
		for _, p := range s.Parts {
			if readings[p.Chart.Metric] == "" {
				t.Errorf("%s %s draws %q, which readings does not describe", s.Name, p.Name, p.Chart.Metric)
			}
		}
	}
}

// TestZeroIsWritten: a bar of 0 has no height on a logarithmic axis, so it is a number; a
// bar that is missing is not.
func TestZeroIsWritten(t *testing.T) {
	svg, err := measured(true).chart()
	must.OK(t, err)
	if n := strings.Count(string(svg), ">0</text>"); n != 1 {
		t.Errorf("0 is written %d times, want once: redsync-rueidis has 0 in one case and is missing in the other", n)
	}
}

// TestWholeSteps: an axis ends at 1, 2 or 5 times a power of ten.
func TestWholeSteps(t *testing.T) {
	for _, tt := range []struct{ min, max, low, high float64 }{
		{9.3, 14.2, 5, 20}, {2, 1034, 2, 2000}, {100, 44171, 100, 50000}, {0.25, 0.25, 0.2, 0.5},
	} {
		a := plot.Axis{Min: tt.min, Max: tt.max}
		if wholeSteps(&a); a.Min != tt.low || a.Max != tt.high {
			t.Errorf("%v to %v: %v to %v, want %v to %v", tt.min, tt.max, a.Min, a.Max, tt.low, tt.high)
		}
	}
}

// TestColors: no two candidates on one server look the same, but for what is bare.
func TestColors(t *testing.T) {
	seen := map[string]string{}
	for _, c := range candidate.All {
		if bare(c.Name) || c == candidate.PingPong || c == candidate.Channel {
			continue // what others are compared with
		}
		appearance := c.Server + fmt.Sprint(colorOf(c.Name))
		if other := seen[appearance]; other != "" || colorOf(c.Name) == ink {
			t.Errorf("%s looks like %q; give it a color", c.Name, other)
		}
		seen[appearance] = c.Name
	}
}
