// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// TestInsist: a question is asked again while a figure is below its floor, and the
// answer says how often, because its figures are then the best and its table is the last.
func TestInsist(t *testing.T) {
	e := &suite.Env{Progress: func(string, ...any) {}}
	floors := figure.Floors{"fast": figure.AtLeast(0.5), "lean": figure.AtMost(3)}
	for _, tt := range []struct {
		name        string
		fast        []float64 // what is measured, time after time
		last, fails bool
		times       int
		want        float64
		note        string
	}{
		{name: "above at once", fast: []float64{0.6}, times: 1, want: 0.6},
		{name: "above the second time", fast: []float64{0.4, 0.7}, times: 2, want: 0.7,
			note: "note: asked 2 times, because of fast, which was 0.4; each figure is the best of 2, the table is the last"},
		{name: "never", fast: []float64{0.3, 0.4, 0.1}, times: 3, want: 0.4,
			note: "note: asked 3 times, because of fast, which was 0.3; each figure is the best of 3, the table is the last"},
		{name: "once only", fast: []float64{0.3}, last: true, times: 1, want: 0.3},
		{name: "not to be measured", fails: true, times: 1},
	} {
		asked := 0
		q := question{last: tt.last, measure: func(context.Context, *suite.Env) (suite.Cells, error) {
			if tt.fails {
				return nil, errors.New("broken")
			}
			asked++
			return suite.Cells{{Candidate: ours.Name, Samples: []suite.Sample{{suite.Rate: tt.fast[asked-1], suite.Commands: 2}}}}, nil
		}, figures: []query{{name: "fast", read: median("", ours, suite.Rate)}, {name: "lean", read: median("", ours, suite.Commands)}}}
		a, err := insist(t.Context(), e, q, floors)
		if (err != nil) != tt.fails || a.times != tt.times {
			t.Errorf("%s: asked %d times, %v", tt.name, a.times, err)
			continue
		}
		if tt.fails {
			continue
		}
		if a.figures[0].Value != tt.want || a.cells[0].Median(suite.Rate) != tt.fast[tt.times-1] {
			t.Errorf("%s: %v and a table of %v", tt.name, a.figures, a.cells[0])
		}
		if tt.note != "" && a.note() != tt.note {
			t.Errorf("%s: %s", tt.name, a.note())
		}
	}
}
