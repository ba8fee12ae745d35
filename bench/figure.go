// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strconv"
)

// figure is one measured number with what it should be.
type figure struct {
	name  string
	value float64
	// goal is such as "<=2", or "-" if it is only reported.
	goal string
}

// String is the line for people and programs.
func (f figure) String() string {
	return fmt.Sprintf("figure %s %s %s", f.name, number(f.value), f.goal)
}

// number rounds to two digits after the point, and leaves them out if there are
// none.
func number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "missing"
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}
