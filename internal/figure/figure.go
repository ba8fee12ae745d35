// SPDX-License-Identifier: Apache-2.0

// Package figure is how every program and test of this repository reports a measured
// number: its name, its value and its goal, on one line that people and programs read.
//
//	figure NAME VALUE GOAL
//
// A goal is such as <=2, >=0.9 or =0; a number without a goal has -. A value that could
// not be measured is "missing".
package figure

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Figure is one measured number with what it should be.
type Figure struct {
	Name  string
	Value float64
	// Goal is what Value should be. The zero Bound is no goal.
	Goal Bound
	// Part is the part of a benchmark suite that measures the same in more detail.
	Part string
}

// String is the line for people and programs.
func (f Figure) String() string {
	return fmt.Sprintf("figure %s %s %s", f.Name, Number(f.Value), f.Goal)
}

// Met reports whether the value was measured and meets its goal.
func (f Figure) Met() bool { return f.Goal.Holds(f.Value) }

// Print writes the line of one figure to standard output.
func Print[N int | int64 | float64](name string, value N, goal Bound) {
	fmt.Println(Figure{Name: name, Value: float64(value), Goal: goal})
}

// Find returns the figures among the lines of an output, as Print wrote them.
func Find(output string) []Figure {
	var found []Figure
	for line := range strings.Lines(output) {
		words := strings.Fields(line)
		if len(words) != 4 || words[0] != "figure" {
			continue
		}
		f := Figure{Name: words[1], Value: math.NaN()}
		if v, err := strconv.ParseFloat(words[2], 64); err == nil {
			f.Value = v
		}
		if goal, err := ParseBound(words[3]); err == nil {
			f.Goal = goal
		}
		found = append(found, f)
	}
	return found
}

// Number rounds to two digits after the point and leaves out zeros at the end.
func Number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "missing"
	}
	return strconv.FormatFloat(round(v), 'f', -1, 64)
}

func round(v float64) float64 {
	v = math.Round(v*100) / 100
	if v == 0 {
		return 0 // not -0
	}
	return v
}

// Bound is such as "<=2", ">=0.9" or "=0". The zero value bounds nothing.
type Bound struct {
	rel   string
	value float64
}

// AtMost returns the bound "<=v".
func AtMost(v float64) Bound { return Bound{"<=", v} }

// AtLeast returns the bound ">=v".
func AtLeast(v float64) Bound { return Bound{">=", v} }

// Exactly returns the bound "=v".
func Exactly(v float64) Bound { return Bound{"=", v} }

// String is "-" for no bound.
func (b Bound) String() string {
	if b.rel == "" {
		return "-"
	}
	return b.rel + strconv.FormatFloat(b.value, 'f', -1, 64)
}

// Holds reports whether a value is within the bound. It compares the value as it is
// printed. A missing value is within no bound.
func (b Bound) Holds(v float64) bool {
	v = round(v)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return false
	}
	switch b.rel {
	case "<=":
		return v <= b.value
	case ">=":
		return v >= b.value
	case "=":
		return v == b.value
	}
	return true
}

// ParseBound reads what String writes.
func ParseBound(text string) (Bound, error) {
	for _, rel := range []string{"<=", ">=", "="} {
		if digits, ok := strings.CutPrefix(text, rel); ok {
			v, err := strconv.ParseFloat(digits, 64)
			return Bound{rel, v}, err
		}
	}
	return Bound{}, fmt.Errorf("%q is not a bound; write <=N, >=N or =N", text)
}
