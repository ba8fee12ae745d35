// SPDX-License-Identifier: Apache-2.0

// Command zoo breaks the library on purpose and demands that each defect is
// caught by the check that is meant for it.
//
//	go run ./internal/zoo             all cages
//	go run ./internal/zoo -only NAME  one cage, with the output of its catcher
//	go run ./internal/zoo -survey     what the simulator makes of every cage
//
// A cage is a change of the source (see docs/decisions/0009): all of them are
// compiled together into three test binaries with go test -overlay, and
// switched on one at a time by the environment. It fails if a defect survives,
// if only another check catches it, or if the text that a cage changes is no
// longer in the source.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	only := flag.String("only", "", "run one cage and show what its catcher prints")
	survey := flag.Bool("survey", false, "run every cage in the simulator, whatever its catcher is")
	flag.Parse()
	if err := run(*only, *survey); err != nil {
		fmt.Fprintln(os.Stderr, "zoo:", err)
		os.Exit(1)
	}
}

func run(only string, survey bool) error {
	dir, err := os.MkdirTemp("", "fencelock-zoo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all := slices.Concat(storeCages, floorCages, memoryCages, coreCages, lineCages, changeCages, ownCages)
	bins, err := build(dir, all)
	if err != nil {
		return err
	}
	if err := bins.healthy(all); err != nil {
		return fmt.Errorf("with no cage open a check fails, so catching proves nothing: %w", err)
	}
	chosen := all
	if only != "" {
		chosen = slices.DeleteFunc(slices.Clone(all), func(c cage) bool { return c.name != only })
		if len(chosen) == 0 {
			return fmt.Errorf("there is no cage %q", only)
		}
	}
	tries := arrange(chosen, survey)
	verdicts := open(bins, tries)
	survived := report(tries, verdicts)
	if only != "" {
		fmt.Println(verdicts[0].output)
	}
	fmt.Printf("zoo: %d caught, %d survived\n", len(chosen)-survived, survived)
	if survived > 0 {
		return fmt.Errorf("%d of %d cages were not caught by every check meant for them", survived, len(chosen))
	}
	return nil
}

// attempt is one check that shall catch one cage.
type attempt struct {
	cage
	by catcher
}

// arrange lists what has to be tried.
func arrange(cages []cage, survey bool) (tries []attempt) {
	for _, c := range cages {
		if survey {
			tries = append(tries, attempt{c, catcher{anyChecker: true}})
			continue
		}
		tries = append(tries, attempt{c, c.catcher})
		if c.sim != "" {
			tries = append(tries, attempt{c, checker(c.sim)})
		}
	}
	return tries
}

// open runs the cages, as many at a time as there are processors.
func open(bins binaries, tries []attempt) []verdict {
	verdicts := make([]verdict, len(tries))
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, t := range tries {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			verdicts[i] = bins.try(t)
		})
	}
	wg.Wait()
	return verdicts
}

// report prints the table and returns how many cages were not caught as meant.
func report(tries []attempt, verdicts []verdict) int {
	survived := map[string]bool{}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "zoo\tdefect\tcaught by\tseeds\tseconds")
	for i, t := range tries {
		v := verdicts[i]
		by := t.by.String()
		if !v.caught {
			survived[t.name] = true
			by = "NOT CAUGHT by " + by
			if v.instead != "" {
				by += ", only by " + v.instead
			}
		}
		if t.by.anyChecker {
			by = v.instead
		}
		seeds := "-"
		if v.seeds > 0 {
			seeds = fmt.Sprint(v.seeds)
		}
		fmt.Fprintf(w, "zoo\t%s\t%s\t%s\t%.1f\n", t.name, by, seeds, v.took.Round(100*time.Millisecond).Seconds())
	}
	w.Flush()
	return len(survived)
}
