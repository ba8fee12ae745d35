// SPDX-License-Identifier: Apache-2.0

// Command modelcheck searches the model of the quorum whole: with all rules, and
// without each of them. It prints the states seen and the length of each
// counterexample, with -v its steps too, and fails if a search does not end as it
// should.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/fencelock/fencelock/quorum/internal/model"
)

func main() {
	verbose := flag.Bool("v", false, "print the steps of every counterexample")
	flag.Parse()
	total, undetected, broken := 0, 0, 0
	began := time.Now()
	model.Check(model.Limit, func(f model.Finding) {
		total += f.States
		switch {
		case f.Off == 0 && f.Good():
			fmt.Printf("model: %-18s all rules     %9d states, all of them, no violation\n", f.Scene, f.States)
		case f.Off == 0:
			broken++
			fmt.Printf("model: %-18s all rules     VIOLATION after %d steps: %s\n", f.Scene, len(f.Steps), f.Violation)
		case f.Good():
			fmt.Printf("model: %-18s without R%-3d  %9d states, counterexample of %d steps: %s\n", f.Scene, f.Off, f.States, len(f.Steps), f.Violation)
		default:
			undetected++
			fmt.Printf("model: %-18s without R%-3d  %9d states, NOT DETECTED\n", f.Scene, f.Off, f.States)
		}
		if f.States >= model.Limit {
			broken++
			fmt.Printf("model: %s was not searched whole\n", f.Scene)
		}
		if *verbose || f.Off == 0 {
			for i, step := range f.Steps {
				fmt.Printf("%8d. %s\n", i+1, step)
			}
		}
	})
	fmt.Printf("model: %d states, %d violations with all rules, %d rules off undetected, %.0f s\n", total, broken, undetected, time.Since(began).Seconds())
	if broken+undetected > 0 {
		os.Exit(1)
	}
}
