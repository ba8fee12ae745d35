// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/fencelock/fencelock/bench/internal/stat"
	"github.com/fencelock/fencelock/bench/internal/suite"
)

// table prints the medians of some metrics, the first with what it was between.
func table(cells suite.Cells, metrics ...string) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "case\tcandidate")
	for i, m := range metrics {
		fmt.Fprint(w, "\t", m)
		if i == 0 {
			fmt.Fprint(w, "\tmin..max")
		}
	}
	fmt.Fprintln(w)
	for _, c := range cells {
		fmt.Fprint(w, c.Case, "\t", c.Candidate)
		for i, m := range metrics {
			s := stat.Of(c.Values(m))
			fmt.Fprint(w, "\t", number(s.Median))
			if i == 0 {
				fmt.Fprintf(w, "\t%.0f..%.0f", s.Min, s.Max)
			}
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
}
