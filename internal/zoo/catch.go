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

// catcher is the check that must catch a defect: exactly one of its fields is
// set.
type catcher struct {
	clause  string // a store clause, by drivertest on memstore
	test    string // a test of the core
	checker string // a checker of the simulator

	anyChecker bool // a survey: whatever the simulator finds
}

// simSeeds is how many schedules a defect may survive.
const simSeeds = 2000

func clause(id string) catcher    { return catcher{clause: id} }
func test(name string) catcher    { return catcher{test: name} }
func checker(name string) catcher { return catcher{checker: name} }

// String names the check for people.
func (c catcher) String() string {
	switch {
	case c.clause != "":
		return "clause " + c.clause
	case c.test != "":
		return c.test
	}
	return "simulator: " + c.checker
}

// verdict is what became of an open cage.
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
	violation  = regexp.MustCompile(`(?m)VIOLATION checker=(\S+) seed=(\d+)`)
)

// try opens one cage and sees whether its check catches it.
func (b binaries) try(t attempt) verdict {
	start := time.Now()
	v := b.run(t.name, t.by)
	v.took = time.Since(start)
	return v
}

// run runs a check with a cage open; an empty name opens none.
func (b binaries) run(name string, c catcher) verdict {
	switch {
	case c.clause != "":
		out, _ := b.exec(name, "memstore", "-test.run=^TestConformance$")
		return judge(out, c.clause, failedCase)
	case c.test != "":
		out, _ := b.exec(name, ".", "-test.run=^"+c.test+"$", "-test.timeout=60s")
		return judge(out, c.test, failedTest)
	}
	stop := c.checker
	if c.anyChecker {
		stop = "any"
	}
	out, _ := b.exec(name, "internal/sim", "-test.run=^TestSchedules$", "-sim.stop="+stop,
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

// healthy makes sure that every check passes while all cages are closed.
func (b binaries) healthy(cages []cage) error {
	var errs []error
	var tests []string
	for _, c := range cages {
		if c.catcher.test != "" {
			tests = append(tests, c.catcher.test)
		}
	}
	for pkg, args := range map[string][]string{
		"memstore":     {"-test.run=^TestConformance$"},
		".":            {"-test.run=^(" + strings.Join(tests, "|") + ")$"},
		"internal/sim": {"-test.run=^TestSchedules$", "-sim.seeds=200"},
	} {
		if out, err := b.exec("", pkg, args...); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w\n%s", pkg, err, out))
		}
	}
	return errors.Join(errs...)
}
