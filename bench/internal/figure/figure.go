// SPDX-License-Identifier: Apache-2.0

// Package figure is the small language of measured numbers: what a number should
// be, what it must not fall below, and how it is printed for people and programs.
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
	// Goal is what it should be; nothing if it is only reported.
	Goal Bound
	// Part is the part of the suite that tells more.
	Part string
}

// String is the line for people and programs.
func (f Figure) String() string {
	return fmt.Sprintf("figure %s %s %s", f.Name, Number(f.Value), f.Goal)
}

// Number rounds to two digits after the point, and leaves them out if there are
// none.
func Number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "missing"
	}
	return strconv.FormatFloat(round(v), 'f', -1, 64)
}

func round(v float64) float64 { return math.Round(v*100) / 100 }

// Bound is such as "<=2" or ">=0.9". The zero value bounds nothing.
type Bound struct {
	rel   string
	value float64
}

// AtMost and AtLeast make bounds.
func AtMost(v float64) Bound { return Bound{"<=", v} }

// AtLeast is the other one.
func AtLeast(v float64) Bound { return Bound{">=", v} }

// String is "-" for no bound.
func (b Bound) String() string {
	if b.rel == "" {
		return "-"
	}
	return b.rel + strconv.FormatFloat(b.value, 'f', -1, 64)
}

// Holds says whether a value is within the bound. It compares what is printed. A
// value that is missing is not within any.
func (b Bound) Holds(v float64) bool {
	v = round(v)
	switch b.rel {
	case "<=":
		return v <= b.value
	case ">=":
		return v >= b.value
	}
	return !math.IsNaN(v)
}

// ParseBound reads what String writes.
func ParseBound(text string) (Bound, error) {
	for _, rel := range []string{"<=", ">="} {
		if digits, ok := strings.CutPrefix(text, rel); ok {
			v, err := strconv.ParseFloat(digits, 64)
			return Bound{rel, v}, err
		}
	}
	return Bound{}, fmt.Errorf("%q is no bound; write <=N or >=N", text)
}
