// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// most is how many tests, or subtests of one test, may fail before a second try is
// pointless: a slow machine fails one, a bug fails many.
const most = 3

// An event is one line of go test -json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// A tester runs go test with arguments and passes its events on. It returns an error if go
// test did.
type tester func(args []string, each func(event)) error

// goTest is the tester of the go command.
func goTest(args []string, each func(event)) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(out)
	for {
		line, readErr := lines.ReadBytes('\n')
		var e event
		if len(line) > 0 && json.Unmarshal(line, &e) == nil {
			each(e)
		}
		if readErr != nil {
			return cmd.Wait()
		}
	}
}

// A failure is a test that failed, with those of its subtests that did.
type failure struct {
	pkg, test string
	subtests  []string // full names
}

// pattern returns what -run must be so that only the failed subtests run again, or the
// test if it has none: a conformance suite takes minutes, its failed case a second.
func (f failure) pattern() string {
	levels := [][]string{{f.test}}
	for _, name := range f.subtests {
		for depth, part := range strings.Split(name, "/") {
			if depth == len(levels) {
				levels = append(levels, nil)
			}
			if part = regexp.QuoteMeta(part); !slices.Contains(levels[depth], part) {
				levels[depth] = append(levels[depth], part)
			}
		}
	}
	var parts []string
	for _, names := range levels {
		parts = append(parts, "^("+strings.Join(names, "|")+")$")
	}
	return strings.Join(parts, "/")
}

// count returns how many of its subtests failed, without the groups that these are in, or 1
// if it has none.
func (f failure) count() int {
	n := 0
	for _, name := range f.subtests {
		if !slices.ContainsFunc(f.subtests, func(other string) bool { return strings.HasPrefix(other, name+"/") }) {
			n++
		}
	}
	return max(1, n)
}

// A result is what a run of go test showed.
type result struct {
	failed []failure
	broken []string // what a second try cannot excuse
	passed map[string]bool
	lacked lacked
	err    error
}

// excuses reports whether a run was of all that had failed, and passed: a name that is
// made up for each run would otherwise select nothing.
func (r result) excuses(f failure) bool {
	for _, name := range append(f.subtests, f.test) {
		if !r.passed[name] {
			return false
		}
	}
	return r.err == nil
}

// fatal are the beginnings of lines of output that no slow machine explains. race is one
// anywhere in a line: tests log the output of processes that they start.
var fatal = []string{"panic: ", "fatal error: "}

const race = "WARNING: DATA RACE"

// shown is how many lines are printed of a test that did not end.
const shown = 3000

// A line is one line of output, and the test that printed it.
type line struct{ test, text string }

// without returns the lines that a test did not print, or all if it shows a race: that one may be of another test, which ran beside it.
func without(lines []line, test string) []line {
	if slices.ContainsFunc(lines, func(l line) bool { return l.test == test && strings.Contains(l.text, race) }) {
		return lines
	}
	return slices.DeleteFunc(lines, func(l line) bool { return l.test == test })
}

func show(w io.Writer, lines []line) {
	for _, l := range lines {
		fmt.Fprint(w, l.text)
	}
}

// watch runs tests and prints what go test without -json would: packages in short, and the
// output of what failed, without that of subtests that passed, of which there may be hundreds beside it.
func watch(w io.Writer, test tester, args []string) result {
	r := result{passed: map[string]bool{}, lacked: lacked{map[string]string{}, map[string]int{}}}
	type id struct{ pkg, test string }
	output, subtests := map[id][]line{}, map[id][]string{}
	finished := map[string]bool{} // packages whose test binary ran all tests
	r.err = test(args, func(e event) {
		top, _, _ := strings.Cut(e.Test, "/")
		key := id{e.Package, top}
		r.lacked.see(e)
		switch e.Action {
		case "output", "build-output":
			if e.Test == "" && !strings.HasPrefix(e.Output, "=== ") && e.Output != "PASS\n" {
				fmt.Fprint(w, e.Output)
			}
			if e.Test == "" && e.Output == "FAIL\n" {
				finished[e.Package] = true
			}
			output[key] = append(output[key], line{e.Test, e.Output})
			starts := func(f string) bool { return strings.HasPrefix(e.Output, f) }
			if slices.ContainsFunc(fatal, starts) || strings.Contains(e.Output, race) {
				r.broken = append(r.broken, e.Package+": "+strings.TrimSpace(e.Output))
			}
		case "pass", "skip":
			r.passed[e.Test] = e.Action == "pass"
			if e.Test == top {
				delete(output, key)
			} else {
				output[key] = without(output[key], e.Test)
			}
		case "build-fail":
			r.broken = append(r.broken, "a package does not build")
		case "fail":
			switch {
			case e.Test == "":
				switch {
				case !slices.ContainsFunc(r.failed, func(f failure) bool { return f.pkg == e.Package }):
					r.broken = append(r.broken, e.Package+" failed outside of its tests")
				case !finished[e.Package]:
					// It exited or was killed: the tests that would follow never ran.
					r.broken = append(r.broken, e.Package+" ended before its tests did")
				}
				// The dump of goroutines is counted as the output of a test that ran.
				for key, lines := range output {
					if key.pkg == e.Package && key.test != "" && !slices.ContainsFunc(r.failed, func(f failure) bool { return f.test == key.test }) {
						show(w, lines[max(0, len(lines)-shown):])
					}
				}
			case e.Test == top:
				r.failed = append(r.failed, failure{e.Package, top, subtests[key]})
				show(w, output[key])
			default:
				subtests[key] = append(subtests[key], e.Test)
			}
		}
	})
	return r
}

// run runs tests, and those that failed once more.
func run(w io.Writer, test tester, args []string) error {
	first := watch(w, test, args)
	fmt.Fprint(w, first.lacked)
	failed := 0
	for _, f := range first.failed {
		failed += f.count()
	}
	switch {
	case first.err == nil:
		return nil
	case len(first.broken) > 0:
		return errors.New(strings.Join(first.broken, "; "))
	case len(first.failed) == 0:
		return first.err
	case failed > most:
		return fmt.Errorf("%d tests failed", failed)
	}
	var again []string
	for _, f := range first.failed {
		fmt.Fprintf(w, "== %s of %s once more, alone\n", f.test, f.pkg)
		if second := watch(w, test, alone(args, f)); !second.excuses(f) {
			again = append(again, f.test)
			continue
		}
		fmt.Fprintf(w, "unsteady: %s of %s failed, and passed alone\n", f.test, f.pkg)
	}
	if len(again) > 0 {
		return fmt.Errorf("failed twice: %s", strings.Join(again, ", "))
	}
	return nil
}

// alone returns the arguments for one test of one package: the flags stay, and the packages,
// -run, -skip and -p go.
func alone(args []string, f failure) []string {
	var kept []string
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case !strings.HasPrefix(args[i], "-"):
		case name == "run" || name == "skip" || name == "p" || name == "count":
			if !joined {
				i++
			}
		case (name == "timeout" || name == "parallel") && !joined && i+1 < len(args):
			kept = append(kept, args[i], args[i+1])
			i++
		default:
			kept = append(kept, args[i])
		}
	}
	// The package comes before the flags: after one of the test binary go test expects none.
	return append([]string{"-count=1", "-run=" + f.pattern(), f.pkg}, kept...)
}

// lacked counts the tests that were skipped because a program is not installed: where it is missing, they prove nothing.
type lacked struct {
	why   map[string]string // the program that a test lacks, by package and test
	tests map[string]int    // by program
}

// Tests skip with "NAME is not installed; how to install it".
var lacks = regexp.MustCompile(`^ +[\w/-]+\.go:\d+: (.+?) is not installed\b`)

func (l lacked) see(e event) {
	id := e.Package + " " + e.Test
	if m := lacks.FindStringSubmatch(e.Output); m != nil && e.Action == "output" {
		program := m[1][strings.LastIndex(m[1], ": ")+1:]
		program, _, _ = strings.Cut(program, ",")
		l.why[id] = strings.TrimSpace(program)
	}
	if program := l.why[id]; program != "" && e.Action == "skip" {
		l.tests[program]++
	}
}

// String is one line, or nothing.
func (l lacked) String() string {
	total, programs := 0, []string{}
	for _, program := range slices.Sorted(maps.Keys(l.tests)) {
		total += l.tests[program]
		programs = append(programs, fmt.Sprintf("%s (%d)", program, l.tests[program]))
	}
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("skipped: %d tests need what is not installed: %s\n", total, strings.Join(programs, ", "))
}
