// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
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
	if err := kept([]string{dir}); err != nil {
		t.Errorf("every result is there: %v", err)
	}
	must.OK(t, os.Remove(filepath.Join(dir, "slow.json")))
	if err := kept([]string{dir}); err == nil || !strings.Contains(err.Error(), "slow: missing") {
		t.Errorf("without the result of slow: %v", err)
	}
}
