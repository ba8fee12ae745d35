// SPDX-License-Identifier: Apache-2.0

// Command check searches the model of layout 2 of redisstore: with all rules, and
// without each of them. It prints the states seen and the length of each counterexample,
// with -v its steps too, and fails if a search does not end as it should.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/fencelock/fencelock/lab/models/redismodel"
)

func main() {
	verbose := flag.Bool("v", false, "print the steps of every counterexample")
	states := flag.Int("states", redismodel.Limit, "how many states of a scene with all rules to see at most")
	only := flag.String("scene", "", "search only the scenes whose names begin so")
	flag.Parse()
	debug.SetGCPercent(25) // nearly all of the memory is in use to the end
	var scenes []redismodel.Scene
	for _, s := range redismodel.Scenes {
		if strings.HasPrefix(s.Name, *only) {
			scenes = append(scenes, s)
		}
	}
	total, bad := 0, 0
	began := time.Now()
	last := began
	redismodel.Check(scenes, *states, func(f redismodel.Finding) {
		total += f.States
		took := time.Since(last).Seconds()
		last = time.Now()
		rule, seen := "all rules", "all of them"
		if f.Off != 0 {
			rule = "without " + f.Off.String()
		}
		if f.States >= *states {
			seen = "the first of them"
		}
		outcome := "no violation, " + seen
		if f.Violation != "" {
			outcome = fmt.Sprintf("counterexample of %d steps: %s", len(f.Steps), f.Violation)
		}
		if !f.Good() {
			bad++
			outcome = "WRONG: " + outcome
		}
		fmt.Printf("model: %-16s %-26s %9d states %6.1f s, %s\n", f.Scene, rule, f.States, took, outcome)
		if *verbose || f.Off == 0 {
			for i, step := range f.Steps {
				fmt.Printf("%8d. %s\n", i+1, step)
			}
		}
	})
	fmt.Printf("model: %d states, %d searches that did not end as they should, %.0f s\n", total, bad, time.Since(began).Seconds())
	if bad > 0 {
		os.Exit(1)
	}
}
