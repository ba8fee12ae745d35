// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// catcher is the check that must catch a defect: one of clause, test and checker.
type catcher struct {
	clause  string // a store clause, by drivertest on memstore
	test    string // a test of pkg
	checker string // a checker of the simulator

	pkg        string // below the root; "." is the API
	anyChecker bool   // a survey: whatever the simulator finds
}

// mostOutput is how many bytes of a failed check are shown.
const mostOutput = 4000

// simSeeds is how many schedules a defect may survive.
const simSeeds = 2000

// String names the check as the texts do.
func (c catcher) String() string {
	switch {
	case c.clause != "":
		return "clause " + c.clause
	case c.test != "":
		return c.pkg + " " + c.test
	}
	return "checker " + c.checker
}

// verdict is what became of an open mutant.
type verdict struct {
	caught  bool
	instead string // the checks that failed although they were not meant
	seeds   int    // schedules the simulator needed
	took    time.Duration
	output  string
}

var (
	failedCase = regexp.MustCompile(`(?m)^\s*--- FAIL: TestConformance/[^/]+/([A-Z][0-9]+)`)
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (Test\w+)`)
	panicked   = regexp.MustCompile(`(?m)^(panic|fatal error): .*`)
	violation  = regexp.MustCompile(`(?m)VIOLATION checker=(\S+) seed=(\d+)`)
)

// try opens one mutant and sees whether its check catches it.
func (b binaries) try(t attempt) verdict {
	start := time.Now()
	v := b.run(t.name, t.by)
	v.took = time.Since(start)
	return v
}

// run runs a check with a mutant open; an empty name opens none.
func (b binaries) run(name string, c catcher) verdict {
	switch {
	case c.clause != "":
		out, _ := b.exec(name, "store/memstore", "-test.run=^TestConformance$")
		return judge(out, c.clause, failedCase)
	case c.test != "":
		out, _ := b.exec(name, c.pkg, "-test.run=^"+c.test+"$", "-test.timeout=60s")
		return judge(out, c.test, failedTest)
	}
	stop := c.checker
	if c.anyChecker {
		stop = "any"
	}
	out, _ := b.exec(name, "lab/sim", "-test.run=^TestSchedules$", "-sim.stop="+stop,
		"-sim.seeds="+strconv.Itoa(simSeeds), "-test.timeout=300s")
	v := judge(out, c.checker, violation)
	for _, m := range violation.FindAllStringSubmatch(out, -1) {
		if seed, err := strconv.Atoi(m[2]); err == nil && (m[1] == c.checker || c.anyChecker) {
			v.seeds, v.caught = seed, true
			break
		}
	}
	return v
}

// judge looks for the check among those that failed.
func judge(out, want string, pattern *regexp.Regexp) verdict {
	v := verdict{output: out}
	var others []string
	for _, m := range pattern.FindAllStringSubmatch(out, -1) {
		if m[1] == want {
			v.caught = true
		} else if !slices.Contains(others, m[1]) {
			others = append(others, m[1])
		}
	}
	v.instead = strings.Join(others, ", ")
	return v
}

func (b binaries) exec(name, pkg string, args ...string) (string, error) {
	cmd := exec.Command(b.path(pkg), args...)
	cmd.Dir = filepath.Join(b.root, pkg)
	cmd.Env = append(os.Environ(), env+"="+name)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// healthy makes sure that every check passes while no mutant is switched on.
func (b binaries) healthy(mutants []mutant) error {
	var errs []error
	tests := map[string][]string{}
	for _, c := range mutants {
		if c.catcher.test != "" {
			tests[c.catcher.pkg] = append(tests[c.catcher.pkg], c.catcher.test)
		}
	}
	tests["store/memstore"] = append(tests["store/memstore"], "TestConformance")
	tests["lab/sim"] = append(tests["lab/sim"], "TestSchedules")
	for pkg, names := range tests {
		args := []string{"-test.run=^(" + strings.Join(names, "|") + ")$"}
		if pkg == "lab/sim" {
			args = append(args, "-sim.seeds=200")
		}
		if out, err := b.exec("", pkg, args...); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w\n%s", pkg, err, out[:min(len(out), mostOutput)]))
		}
	}
	return errors.Join(errs...)
}

// find runs all tests of a mutant's package and of the core, and names those that fail.
func (b binaries) find(c mutant) string {
	pkgs := []string{filepath.Dir(c.edits[0].file), "internal/core", ".", "store/memstore"}
	for i, pkg := range pkgs {
		if !slices.Contains(packages, pkg) || slices.Index(pkgs, pkg) < i {
			continue
		}
		out, err := b.exec(c.name, pkg, "-test.timeout=90s", "-test.failfast")
		if err != nil {
			var names []string
			for _, m := range failedTest.FindAllStringSubmatch(out, -1) {
				names = append(names, m[1])
			}
			for _, m := range failedCase.FindAllStringSubmatch(out, -1) {
				names = append(names, m[1])
			}
			return fmt.Sprintf("%s: %v %s", pkg, slices.Compact(names), panicked.FindString(out))
		}
	}
	return "no test fails"
}
