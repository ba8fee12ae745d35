// SPDX-License-Identifier: Apache-2.0

// Package report writes down what was measured: a table for the terminal, and for
// lab/results/benchmarks a page, the numbers as JSON, and charts.
package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// Table prints cells as a table for the terminal.
func Table(out io.Writer, cells suite.Cells, metrics []string) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range Rows(cells, metrics, nil) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
}

// Ratio divides what was measured of a candidate by what was measured of its bare
// one, in a case.
type Ratio func(kase, name string) float64

// Rows are the rows of a table, the head first: the medians, and of the first
// metric what the repetitions were between.
func Rows(cells suite.Cells, metrics []string, ratio Ratio) [][]string {
	head := []string{"case", "candidate"}
	if ratio != nil {
		head = append(head, "× bare")
	}
	spread := false // there is one if something was repeated
	for _, c := range cells {
		spread = spread || len(c.Samples) > 1
	}
	for i, m := range metrics {
		head = append(head, m)
		if i == 0 && spread {
			head = append(head, "min..max")
		}
	}
	rows := [][]string{head}
	for _, c := range cells {
		row := []string{c.Case, c.Candidate}
		if ratio != nil {
			row = append(row, Short(ratio(c.Case, c.Candidate)))
		}
		for i, m := range metrics {
			s := stat.Of(c.Values(m))
			row = append(row, Short(s.Median))
			switch {
			case i == 0 && spread && !math.IsNaN(s.Median):
				row = append(row, Short(s.Min)+".."+Short(s.Max))
			case i == 0 && spread:
				row = append(row, "")
			}
		}
		if c.Failed != "" {
			row[len(row)-1] = "failed: " + brief(c.Failed)
		}
		rows = append(rows, row)
	}
	return rows
}

// reasonLength is how much of a reason a table has room for, in characters. All of it
// is in the JSON.
const reasonLength = 120

// brief makes one line of a reason, which may be all that Maven had to say.
func brief(reason string) string {
	text := []rune(strings.Join(strings.Fields(reason), " "))
	if len(text) > reasonLength {
		return string(text[:reasonLength-1]) + "…"
	}
	return string(text)
}

// markdown keeps a page from reading a cell as anything but text: a bar would end it.
var markdown = strings.NewReplacer(`\`, `\\`, "|", `\|`, "`", "\\`", "<", "&lt;", "*", `\*`, "_", `\_`, "[", `\[`)

// Short prints a number with about three digits that count.
func Short(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return ""
	case a >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
