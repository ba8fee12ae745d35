// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// keptEvent is a result of lab/events.
type keptEvent struct {
	Event string
	Size  struct {
		Sessions, Leases int
		TTL              time.Duration
	}
	Lost        int
	Calm        time.Duration
	PeakCPU     float64 `json:"peak_cpu"`
	CPU         float64
	Connections int
	Arrivals    struct{ Bins []int }
	Notes       []struct {
		Name  string
		Value float64
	}
}

// row is what docs/scale.md has of it, without the first cells.
func (e *keptEvent) row() string {
	sum := 0
	for _, n := range e.Arrivals.Bins {
		sum += n
	}
	peak := fmt.Sprintf("%.0f %% of a core", 100*e.PeakCPU)
	if e.PeakCPU < 0.005 && e.CPU > 1 { // it was sampled when the event was over
		peak = "not measured"
	}
	return fmt.Sprintf("| %v | %d | %.1f s, %.2f TTLs | %s | %.1f s | %d | %d, %.1f |", e.Size.TTL, e.Lost, e.Calm.Seconds(),
		e.Calm.Seconds()/e.Size.TTL.Seconds(), peak, e.CPU, e.Connections, slices.Max(e.Arrivals.Bins), float64(sum)/float64(len(e.Arrivals.Bins)))
}

// TestScalePageHasTheKeptEvents: the table of events, and the failover in the text, are those of the kept results.
func TestScalePageHasTheKeptEvents(t *testing.T) {
	t.Chdir("../..")
	text, err := os.ReadFile(scalePage)
	must.OK(t, err)
	page := string(text)
	files, err := filepath.Glob(filepath.Join("lab", "events", "results", "*.json"))
	if err != nil || len(files) < 6 {
		t.Fatalf("%d results of events are kept (%v)", len(files), err)
	}
	for _, file := range files {
		var e keptEvent
		must.OK(t, readKept(file, &e))
		row := fmt.Sprintf("| %s | %d, %d %s\n", e.Event, e.Size.Sessions, e.Size.Sessions*e.Size.Leases, e.row())
		if !strings.Contains(page, row) {
			t.Errorf("%s has not the row of %s; make figures-scale prints it:\n%s", scalePage, file, row)
		}
		for _, n := range e.Notes {
			words := fmt.Sprintf("reclaimed after %.1f s, for %.1f s of", n.Value, e.CPU)
			if n.Name == "seconds until every lease was reclaimed" && !strings.Contains(strings.Join(strings.Fields(page), " "), words) {
				t.Errorf("%s has not %q, as %s", scalePage, words, file)
			}
		}
	}
}
