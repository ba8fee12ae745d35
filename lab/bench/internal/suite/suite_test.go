// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

func TestNamed(t *testing.T) {
	for _, s := range All {
		if got, err := Named(s.Name); err != nil || got != s {
			t.Errorf("Named(%q) = %v, %v", s.Name, got, err)
		}
		names := map[string]bool{}
		for _, p := range s.Parts {
			if names[p.Name] || p.Title == "" || p.Text == "" || p.Chart.Metric == "" || len(p.Metrics) == 0 || p.Run == nil {
				t.Errorf("%s: part %q lacks something, or is there twice", s.Name, p.Name)
			}
			names[p.Name] = true
		}
	}
	if s, err := Named("nothing"); err == nil {
		t.Errorf("Named of no suite = %v", s.Name)
	}
}

func TestOnly(t *testing.T) {
	s := &Suite{Name: "s", Parts: []*Part{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d", Long: true}}}
	for _, tt := range []struct {
		names []string
		want  int
		fails bool
	}{{nil, 3, false}, {[]string{"c", "a"}, 2, false}, {[]string{"a", "d"}, 2, false}, {[]string{"a", "x"}, 0, true}} {
		parts, err := s.Only(tt.names)
		if len(parts) != tt.want || (err != nil) != tt.fails {
			t.Errorf("Only(%v) = %d parts, %v", tt.names, len(parts), err)
		}
	}
}

// TestInterleave: all run once in each repetition, and the first time does not count.
func TestInterleave(t *testing.T) {
	var order []string
	step := func(name string) run {
		return run{"case", name, func(_ context.Context, e *Env, repetition int) (Sample, error) {
			order = append(order, name)
			return Sample{Rate: float64(repetition), P50: e.For.Seconds()}, nil
		}}
	}
	e := &Env{Repetitions: 2, For: 4 * time.Second, Progress: func(string, ...any) {}}
	cells, err := e.interleave(t.Context(), []run{step("A"), step("B"), step("C")})
	must.OK(t, err)
	var want []string
	for _, at := range orders(3, 3) {
		for _, i := range at {
			want = append(want, "ABC"[i:i+1])
		}
	}
	if !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	for _, c := range cells {
		if got := c.Values(Rate); !slices.Equal(got, []float64{1, 2}) {
			t.Errorf("%s: repetitions %v, want 1 and 2", c.Candidate, got)
		}
		if got := c.Values(P50); !slices.Equal(got, []float64{4, 4}) {
			t.Errorf("%s: they lasted %v s, want 4", c.Candidate, got)
		}
	}
	bad := run{"case", "bad", func(context.Context, *Env, int) (Sample, error) { return nil, errors.New("broken") }}
	if _, err := e.interleave(t.Context(), []run{step("A"), bad}); err == nil || err.Error() != "case, bad: broken" {
		t.Errorf("a candidate that fails: %v", err)
	}
	e.KeepGoing = true
	cells, err = e.interleave(t.Context(), []run{step("A"), bad})
	if err != nil || len(cells[0].Samples) != 2 || cells[1].Failed != "broken" {
		t.Errorf("going on after a failure: %v, %+v", err, cells)
	}
}

// TestLockNotAcquired: who gets no lock is tried again for longer, and not blamed for it
// while warming up.
func TestLockNotAcquired(t *testing.T) {
	e := &Env{Repetitions: 2, For: 4 * time.Second, KeepGoing: true, Progress: func(string, ...any) {}}
	slow := run{"case", "slow", func(_ context.Context, _ *Env, repetition int) (Sample, error) {
		if repetition == 0 {
			return nil, errNotAcquired
		}
		return Sample{}, nil
	}}
	never := run{"case", "never", func(context.Context, *Env, int) (Sample, error) { return nil, errNotAcquired }}
	var lasted []time.Duration
	stalled := run{"case", "stalled", func(_ context.Context, e *Env, repetition int) (Sample, error) {
		lasted = append(lasted, e.For)
		if repetition == 1 { // the next try has another number
			return nil, errNotAcquired
		}
		return Sample{}, nil
	}}
	cells, err := e.interleave(t.Context(), []run{never, stalled})
	if err != nil || cells[0].Failed == "" || cells[1].Failed != "" || len(cells[1].Samples) != 2 {
		t.Errorf("those who get it never, and not at first: %v, %+v, %+v", err, cells[0], cells[1])
	}
	if want := []time.Duration{time.Second, 4 * time.Second, 8 * time.Second, 4 * time.Second}; !slices.Equal(lasted, want) {
		t.Errorf("they lasted %v, want %v", lasted, want)
	}
	e.KeepGoing = false
	if _, err := e.interleave(t.Context(), []run{slow}); err != nil {
		t.Errorf("nothing done while warming up: %v", err)
	}
}

func TestAtLeast(t *testing.T) {
	e := &Env{Repetitions: 3, For: time.Second}
	for least, want := range map[time.Duration]time.Duration{0: time.Second, time.Minute: time.Minute} {
		if got := e.AtLeast(least); got.For != want || got.Repetitions != 3 {
			t.Errorf("AtLeast(%v) lasts %v, %d times", least, got.For, got.Repetitions)
		}
	}
}
