// SPDX-License-Identifier: Apache-2.0

// Command mutants runs the mutation tests: it breaks the library on purpose, one mutant at
// a time, and demands that each is killed by the check that is meant for it.
//
//	go run ./lab/mutants               all mutants but those that take long
//	go run ./lab/mutants -all          all mutants, and the figures
//	go run ./lab/mutants -all -slow    also those whose check starts ZooKeeper, or is that of an analyzer
//	go run ./lab/mutants -all -one-of 4    a quarter of them, as CI does; the commit decides which
//	go run ./lab/mutants -only REGEXP  some mutants; a single one with the output of its check
//	go run ./lab/mutants -find         which test fails first, among all tests
//	go run ./lab/mutants -survey       what the simulator makes of every mutant
//
// A mutant is a change of the source inside one function (see docs/decisions/0005), or of a Lua script, written in
// one of the text files beside this one (see parse.go for their form): all of them are compiled together into test binaries with go test -overlay, and
// switched on one at a time by the environment. The command fails if a mutant survives, if
// only another check kills it, or if the text that it changes is no longer in the
// source. Mutants that no test can kill are listed with the reason.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/internal/checkout"
)

// options are the flags.
type options struct {
	only                    string
	all, slow, find, survey bool
	oneOf                   int
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "run the mutants whose name matches this regular expression")
	flag.BoolVar(&o.all, "all", false, "run all mutants, also with the checks that take long, and print the figures")
	flag.BoolVar(&o.slow, "slow", false, "run also the mutants whose check takes half a minute each")
	flag.IntVar(&o.oneOf, "one-of", 1, "run one of so many mutants; the commit decides which")
	flag.BoolVar(&o.find, "find", false, "run all tests for each mutant and print the first that fails")
	flag.BoolVar(&o.survey, "survey", false, "run every mutant in the simulator, whatever must kill it")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// mutants returns all that a check must kill, and those that none can.
func mutants() (killable, equivalents []mutant, err error) {
	all, err := parseAll(texts)
	for _, m := range all {
		if m.equivalent() {
			equivalents = append(equivalents, m)
		} else {
			killable = append(killable, m)
		}
	}
	return killable, equivalents, err
}

func run(o options) error {
	all, equivalents, err := mutants()
	if err != nil {
		return err
	}
	if !o.slow && o.only == "" {
		all = slices.DeleteFunc(all, mutant.slow)
	}
	every := slices.Concat(all, equivalents)
	if o.find || o.survey { // perhaps one of them is not equivalent after all
		all = every
	}
	chosen, err := choose(all, o.only) // before the build, which takes minutes
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fencelock-mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bins, err := build(dir, every)
	if err != nil {
		return err
	}
	chosen = everyNth(chosen, max(o.oneOf, 1), checkout.Commit("."))
	if o.find {
		each(len(chosen), func(i int) { fmt.Printf("mutants %s: %s\n", chosen[i].name, bins.find(chosen[i])) })
		return nil
	}
	if err := bins.healthy(chosen); err != nil {
		return fmt.Errorf("a check fails although no mutant is switched on, so killing proves nothing: %w", err)
	}
	tries := arrange(chosen, o)
	verdicts := make([]verdict, len(tries))
	each(len(tries), func(i int) { verdicts[i] = bins.try(tries[i]) })
	survived := report(tries, verdicts)
	if len(chosen) == 1 {
		fmt.Println(verdicts[0].output)
	}
	for _, e := range equivalents {
		fmt.Printf("mutants equivalent %s: %s\n", e.name, e.why)
	}
	fmt.Printf("mutants: %d killed, %d survived, %d equivalent\n", len(chosen)-survived, survived, len(equivalents))
	if o.all && o.only == "" {
		figure.Print("mutants-run", len(chosen), figure.AtLeast(140))
		figure.Print("mutants-survived", survived, figure.Exactly(0))
	}
	if survived > 0 {
		return fmt.Errorf("%d of %d mutants were not killed by every check meant for them", survived, len(chosen))
	}
	return nil
}

// slow reports whether the check of a mutant starts a server in Java, or reads the source of the standard library.
func (m mutant) slow() bool {
	return m.catcher.pkg == "store/zkstore/curatorstore" || m.catcher.pkg == "vet"
}

// choose returns the mutants that the flag -only selects.
func choose(all []mutant, only string) ([]mutant, error) {
	pattern, err := regexp.Compile("^(" + only + ")$")
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	if only == "" {
		return all, nil
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(c mutant) bool { return !pattern.MatchString(c.name) })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no mutant matches %q", only)
	}
	return chosen, nil
}

// everyNth returns every nth mutant, from a place that the commit decides: so a few commits run all of them, each in a fraction of the time.
func everyNth(all []mutant, n int, commit string) (some []mutant) {
	first := 0
	for _, digit := range commit {
		first = (16*first + int(digit)) % n
	}
	for i := first; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}

// attempt is one check that shall catch one mutant.
type attempt struct {
	mutant
	by catcher
}

// arrange lists what has to be tried. Without -all, a mutant that a test kills is not
// run in the simulator too.
func arrange(mutants []mutant, o options) (tries []attempt) {
	for _, c := range mutants {
		if o.survey {
			tries = append(tries, attempt{c, catcher{anyChecker: true}})
			continue
		}
		tries = append(tries, attempt{c, c.catcher})
		if c.sim != "" && (o.all || o.only != "") {
			tries = append(tries, attempt{c, catcher{checker: c.sim}})
		}
	}
	return tries
}

// each calls f with 0 to n-1, as many at once as there are processors.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range n {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}

// report prints the table and returns how many mutants were not killed as meant.
func report(tries []attempt, verdicts []verdict) int {
	survived := map[string]bool{}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "mutants\tmutant\tkilled by\tseeds\tseconds")
	for i, t := range tries {
		v := verdicts[i]
		by := t.by.String()
		if !v.caught {
			survived[t.name] = true
			by = "NOT KILLED by " + by
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
		fmt.Fprintf(w, "mutants\t%s\t%s\t%s\t%.1f\n", t.name, by, seeds, v.took.Round(100*time.Millisecond).Seconds())
	}
	w.Flush()
	return len(survived)
}
