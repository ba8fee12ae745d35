// SPDX-License-Identifier: Apache-2.0

package event

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/load/internal/results"
)

// TestHistogramsOfSeveralProcessesAddUp: bins are added by the time at which they are, also those of a process
// that began before or after the event.
func TestHistogramsOfSeveralProcessesAddUp(t *testing.T) {
	event := time.UnixMilli(10_000)
	h := sum(event, 500*time.Millisecond,
		Histogram{Began: 9_800, Bins: []int64{7, 7, 1, 2}},
		Histogram{Began: 10_100, Bins: []int64{10, 20, 30, 40, 50}})
	if want := []int64{1, 12, 20, 30, 40}; !slices.Equal(h.Bins, want) {
		t.Errorf("the sum is %v, want %v", h.Bins, want)
	}
}

func TestPeakVsMean(t *testing.T) {
	for _, tt := range []struct {
		bins []int64
		want float64
	}{{nil, 0}, {[]int64{5, 5, 5}, 1}, {[]int64{0, 0, 12, 0}, 4}} {
		if got := (Histogram{Bins: tt.bins}).peakVsMean(); got != tt.want {
			t.Errorf("of %v: %v, want %v", tt.bins, got, tt.want)
		}
	}
}

// TestPictureHasABarForEachBin that is not empty.
func TestPictureHasABarForEachBin(t *testing.T) {
	r := &Result{Size: size{Sessions: 5, TTL: time.Second}, Arrivals: Histogram{Bins: []int64{3, 0, 1}}}
	svg := picture(r)
	if n := strings.Count(svg, `class="bar"`); n != 2 {
		t.Errorf("%d bars, want 2", n)
	}
	if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
		t.Error(err)
	}
}

// TestMissingResultIsAnError: an event whose result is not kept is named, and the figures of the others are printed.
func TestMissingResultIsAnError(t *testing.T) {
	dir := t.TempDir()
	for name := range events {
		must.OK(t, (&Result{Event: name, Size: size{Sessions: 1, TTL: time.Second}}).write(dir))
	}
	if err := Kept(dir, filepath.Join(dir, "storm.svg")); err != nil {
		t.Errorf("every result is there: %v", err)
	}
	must.OK(t, os.Remove(filepath.Join(dir, "slow.json")))
	if err := Kept(dir, filepath.Join(dir, "storm.svg")); err == nil || !strings.Contains(err.Error(), "slow: missing") {
		t.Errorf("without the result of slow: %v", err)
	}
}

// TestScalePageHasTheKeptEvents: the table of events, and the failover in the text, are those of the kept results.
func TestScalePageHasTheKeptEvents(t *testing.T) {
	text, err := os.ReadFile("../../../results/scale.md")
	must.OK(t, err)
	all, err := results.Read[Result]("../../results/events")
	must.OK(t, err)
	rows, _, _ := strings.Cut(table(all), "\n- ")
	if !strings.Contains(string(text), rows+"\n") {
		t.Errorf("lab/results/scale.md has not the table of the kept results; make figures-scale prints it:\n%s", rows)
	}
	f := all["failover"]
	for _, n := range f.Notes {
		words := fmt.Sprintf("reclaimed after %.1f s, for %.1f s of", n.Value, f.CPU)
		if n.Name == "seconds until every lease was reclaimed" && !strings.Contains(strings.Join(strings.Fields(string(text)), " "), words) {
			t.Errorf("lab/results/scale.md has not %q", words)
		}
	}
}
