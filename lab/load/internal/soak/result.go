// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/internal/checkout"
	"github.com/fencelock/fencelock/lab/load/internal/results"
)

// Result is what a run on one deployment showed. It is kept as a file.
type Result struct {
	Server string    `json:"server"`
	Seed   uint64    `json:"seed"`
	Began  time.Time `json:"began"`
	Commit string    `json:"commit,omitempty"` // of fencelock
	// Seconds is how long it ran, of which the first Warm are not judged.
	Seconds float64 `json:"seconds"`
	Warm    float64 `json:"warm"`
	// Tally is what the measured process did, Faults what was done to it and to the others.
	Tally  Tally          `json:"tally"`
	Faults map[string]int `json:"faults"`
	// Missed are rounds whose sample could not be taken.
	Missed int `json:"missed"`
	// Base is what an unused store and a closed client have; Left what there was at the end.
	Base    Sample   `json:"base"`
	Left    Sample   `json:"left"`
	Slopes  []Slope  `json:"slopes"`
	Samples []Sample `json:"samples"`
}

// warmUp is the part of a run that is not judged: pools and caches fill.
const warmUp = 0.25

// judge fits the slopes.
func (r *Result) judge() {
	r.Warm, r.Slopes = warmUp*r.Seconds, nil
	for _, m := range metrics {
		r.Slopes = append(r.Slopes, slopeOf(m, r.Samples, r.Warm))
	}
}

// leaks are the series that grow.
func (r *Result) leaks() (n int) {
	for _, s := range r.Slopes {
		if s.Leak {
			n++
		}
	}
	return n
}

// prolong runs for length, and for as long again if a series seems to grow: what fills slowly, as a cache of statements does,
// may look like a leak, and stops; a leak goes on. It judges twice at most: looking more often would end a run when chance
// has a leak look like none.
func (r *Result) prolong(length time.Duration, run func(until time.Duration) error) error {
	err := run(length)
	if r.judge(); err != nil || r.leaks() == 0 {
		return err
	}
	fmt.Printf("%s: runs for as long again, because of this:\n%s", r.Server, r)
	err = run(2 * length)
	r.judge()
	return err
}

// undecided are the series with too few samples to judge: on a machine that is too busy the client does not come to
// rest in time.
func (r *Result) undecided() (n int) {
	for _, s := range r.Slopes {
		if math.IsInf(s.Low, 0) || math.IsNaN(s.PerHour) {
			n++
		}
	}
	return n
}

// remains are what was left after everything was closed.
func (r *Result) remains() (what []string) {
	for _, m := range metrics {
		if left, base := m.of(r.Left), m.of(r.Base); left > base+m.slack {
			what = append(what, fmt.Sprintf("%.0f %s more than at the beginning", left-base, m.unit))
		}
	}
	return what
}

// blindFor is how long a run may be without a sample: the store and its locks come back from every fault much sooner.
const blindFor = 2 * time.Minute

// blind is an error if the locks could not be used, or the store not be counted, for long.
func (r *Result) blind() error {
	last := 0.0
	var longest, from float64
	for _, second := range append(r.seconds(), r.Seconds) {
		if gap := second - last; gap > longest {
			longest, from = gap, last
		}
		last = second
	}
	if longest <= blindFor.Seconds() {
		return nil
	}
	return fmt.Errorf("no sample could be taken from second %.0f to %.0f", from, from+longest)
}

// seconds is when the samples were taken.
func (r *Result) seconds() (all []float64) {
	for _, s := range r.Samples {
		all = append(all, s.Second)
	}
	return all
}

// verdict is an error if something grows or was left, or if nothing could be seen for long.
func (r *Result) verdict() error {
	var all []error
	for _, s := range r.Slopes {
		if s.Leak {
			all = append(all, fmt.Errorf("%s grow by %.4g per hour, at least by %.4g", s.Metric, s.PerHour, s.Low))
		}
	}
	for _, w := range r.remains() {
		all = append(all, errors.New("left at the end: "+w))
	}
	return errors.Join(append(all, r.blind())...)
}

// String is the result in words.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %.1f minutes, %d operations, %d of them failed under faults, %d samples, %d missed\n",
		r.Server, r.Seconds/60, r.Tally.Turns, r.Tally.Errors, len(r.Samples), r.Missed)
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		fmt.Fprintf(&b, "  %4d × %s\n", r.Faults[kind], kind)
	}
	for _, s := range r.Slopes {
		mark := ""
		if s.Leak {
			mark = "  LEAK"
		}
		fmt.Fprintf(&b, "  %-10s %12.0f  %+.4g per hour (%+.4g to %+.4g)%s\n", s.Metric, s.Level, s.PerHour, s.Low, s.High, mark)
	}
	fmt.Fprintf(&b, "  left: %v\n", r.remains())
	return b.String()
}

// stored makes numbers of the bounds that JSON does not have: with too few points any slope is possible.
func (r *Result) stored() *Result {
	c := *r
	c.Slopes = slices.Clone(r.Slopes)
	for i := range c.Slopes {
		c.Slopes[i].finite()
	}
	return &c
}

const unbounded = 1e300

func (s *Slope) finite() {
	s.Low, s.High = max(s.Low, -unbounded), min(s.High, unbounded)
	if s.PerHour != s.PerHour {
		s.PerHour = 0
	}
	if s.Level != s.Level {
		s.Level = 0
	}
}

// write keeps the result in a folder.
func (r *Result) write(dir string) error {
	r.Commit = checkout.Commit(".")
	text, err := json.Marshal(r.stored())
	if err != nil {
		return err
	}
	// One sample per line: the file is read by people, too.
	lines := strings.ReplaceAll(string(text), `{"second"`, "\n"+`{"second"`)
	return results.Write(dir, r.Server, lines)
}

// read reads the results of a folder. The slopes are fitted again, from the samples.
func read(dir string) (all []*Result, err error) {
	byName, err := results.Read[Result](dir)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		byName[name].judge()
		all = append(all, byName[name])
	}
	return all, err
}

// table is the results as a table of Markdown.
func table(all []*Result) string {
	b := "| Server | Minutes | Operations | Faults | Heap, KiB per hour | Goroutines per hour | File descriptors per hour | Entries per hour |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- |\n"
	for _, r := range all {
		faults := 0
		for _, n := range r.Faults {
			faults += n
		}
		b += fmt.Sprintf("| %s | %.0f | %d | %d |", r.Server, r.Seconds/60, r.Tally.Turns, faults)
		for i, s := range r.Slopes {
			scale := 1.0
			if i == 0 {
				scale = 1024
			}
			if math.IsInf(s.Low, 0) || math.IsNaN(s.PerHour) {
				b += " undecided |"
				continue
			}
			b += fmt.Sprintf(" %+.3g (%+.3g to %+.3g) |", s.PerHour/scale, s.Low/scale, s.High/scale)
		}
		b += "\n"
	}
	return b
}

// Kept prints the results in a folder, and their figures.
func Kept(dir string) error {
	all, err := read(dir)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no results; make soak writes them", dir)
	}
	if err != nil {
		return err
	}
	fmt.Print(table(all))
	hours, leaks, undecided := 0.0, 0, 0
	var failed []error
	for _, r := range all {
		hours += r.Seconds / 3600
		leaks += r.leaks() + len(r.remains())
		undecided += r.undecided()
		if err := r.verdict(); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", r.Server, err))
		}
	}
	figure.Print("soak-servers", len(all), figure.AtLeast(8))
	figure.Print("soak-hours", hours, figure.AtLeast(4))
	figure.Print("soak-leak-slopes", leaks, figure.Exactly(0))
	figure.Print("soak-undecided-slopes", undecided, figure.Exactly(0))
	return errors.Join(failed...)
}
