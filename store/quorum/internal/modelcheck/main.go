// SPDX-License-Identifier: Apache-2.0

// Command modelcheck searches the model of the quorum whole: with all rules, and
// without each of them. It prints the states seen and the length of each
// counterexample, with -v its steps too. With -walks it also runs so many random
// schedules of a larger world. It prints its figures and fails if one is not as it
// should be.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/internal/explore"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/store/quorum/internal/model"
)

func main() {
	verbose := flag.Bool("v", false, "print the steps of every counterexample")
	walks := flag.Int("walks", 100_000, "how many random schedules to run")
	states := flag.Int("states", model.Limit, "how many states of a scene with all rules to see; fewer than all is for CI")
	flag.Parse()
	bad := search(*verbose, *states) + walk(*walks)
	if bad > 0 {
		os.Exit(1)
	}
}

// search searches every scene, and returns how many searches did not end as they
// should.
func search(verbose bool, limit int) int {
	r := explore.NewReport(limit, verbose)
	model.Check(model.Scenes, limit, func(f model.Finding) {
		off := ""
		if f.Off != 0 {
			off = fmt.Sprint("R", f.Off)
		}
		r.Add(f.Scene, off, f.Result)
		if f.States >= model.Limit {
			r.Broken++
			fmt.Printf("model: %s was not searched whole\n", f.Scene)
		}
	})
	figure.Print("quorum-model-undetected", r.Undetected, figure.Exactly(0))
	return r.End()
}

// walk runs random schedules on all processors, and returns in how many of them
// tokens were wrong.
func walk(n int) int {
	began := time.Now()
	workers := runtime.GOMAXPROCS(0)
	all := make([]*model.Walks, workers)
	var wrong atomic.Int64
	var wg sync.WaitGroup
	for i := range all {
		all[i] = model.NewWalks(model.Wide, model.Loose, uint64(i))
		wg.Go(func() {
			for range n/workers + 1 {
				if r := all[i].Walk(); r.Violation != "" && wrong.Add(1) == 1 {
					fmt.Printf("model: VIOLATION in a schedule: %s: %q\n", r.Violation, r.Steps)
				}
			}
		})
	}
	wg.Wait()
	var schedules, grants, several, losses int
	for _, w := range all {
		schedules, grants, several, losses = schedules+w.Schedules, grants+w.Grants, several+w.Several, losses+w.Losses
	}
	fmt.Printf("model: %d random schedules, %d grants, %d schedules with several, %d data losses, %.0f s\n",
		schedules, grants, several, losses, time.Since(began).Seconds())
	figure.Print("quorum-token-violations", wrong.Load(), figure.Exactly(0))
	return int(wrong.Load())
}
