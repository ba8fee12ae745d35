// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// guardTests are the tests to run: the packages, and which of their tests. Package
// fencetest has only the wrong guards: its right guard guards nothing real.
var guardTests = [][]string{
	{"-run", "Refused", "./fence/fencetest"},
	{"-run", "Guard|Refused|AddedStatements|FilesBehind", "./fence", "./fence/filefence", "./fence/httpfence", "./fence/redisfence", "./fence/etcdfence", "./fence/pgxfence", "./fence/grpcfence", "./fence/s3fence", "./lab/e2e"},
}

// fenceFigures proves the guards on real servers, and shows guards that are wrong on
// purpose to fencetest. It fails if a figure misses its goal or cannot be measured, and
// if a case, a test or a whole server was skipped, because it is not installed for
// example. Only Valkey and versitygw may be missing. The figures are read from the output of the tests,
// which are in several modules.
func fenceFigures(ctx context.Context, _ *suite.Env) error {
	var output strings.Builder
	failed := false
	for _, args := range guardTests {
		out, err := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1", "-v"}, args...)...).CombinedOutput()
		output.Write(out)
		if err != nil {
			failed = !noError("go test "+strings.Join(args, " "), fmt.Errorf("%w\n%s", err, complaints(string(out))))
		}
	}
	r := readGuards(output.String())
	fmt.Printf("fence: proved: %s\n", strings.Join(r.proved, "; "))
	for _, p := range r.partly {
		fmt.Printf("fence: proved in part, and not counted: %s\n", p)
	}
	for _, s := range r.skipped {
		fmt.Printf("fence: skipped: %s\n", s)
		// Not every Debian has Valkey, and none has versitygw: they are reported, as by the part servers of .ci/run.
		failed = failed || !strings.Contains(s, "valkey") && !strings.Contains(s, "versitygw")
	}
	failed = failed || len(r.partly) > 0
	fmt.Printf("fence: %d wrong guards shown, %d refused\n", r.refused+r.passed, r.refused)
	for _, f := range r.figures() {
		fmt.Println(f)
		failed = failed || !f.Met()
	}
	if failed {
		return errors.New("a figure misses its goal, or a test failed or was skipped")
	}
	return nil
}

// guards is what the tests print about guards.
type guards struct {
	proved          []string // names of guards, without those of which a case was skipped
	partly          []string // names of those, with the clauses that were skipped
	skipped         []string // names of tests, with the reason
	refused, passed int      // wrong guards
	added           int      // round trips at most, -1 if no test counted
}

var (
	provedLine  = regexp.MustCompile(`fencetest: proved (.+): \d+ cases passed, 0 failed`)
	partlyLine  = regexp.MustCompile(`fencetest: PARTLY PROVED (.+): \d+ cases passed, 0 failed, (\d+ skipped \(.+\))`)
	skippedLine = regexp.MustCompile(`(?m)^(?: *\S+\.go:\d+: (.*)\n)? *--- SKIP: (\S+)`)
	refusedLine = regexp.MustCompile(`fencetest: refused `)
	passedLine  = regexp.MustCompile(`fencetest: PASSED `)
	addsLine    = regexp.MustCompile(`fencetest: .* adds (-?\d+) round trips`)
)

func readGuards(output string) guards {
	r := guards{refused: len(refusedLine.FindAllString(output, -1)), passed: len(passedLine.FindAllString(output, -1)), added: -1}
	for _, m := range provedLine.FindAllStringSubmatch(output, -1) {
		r.proved = append(r.proved, m[1])
	}
	for _, m := range partlyLine.FindAllStringSubmatch(output, -1) {
		r.partly = append(r.partly, m[1]+", "+m[2])
	}
	for _, m := range skippedLine.FindAllStringSubmatch(output, -1) {
		r.skipped = append(r.skipped, strings.TrimSuffix(m[2]+": "+m[1], ": "))
	}
	for _, m := range addsLine.FindAllStringSubmatch(output, -1) {
		n, _ := strconv.Atoi(m[1])
		r.added = max(r.added, n)
	}
	return r
}

func (r guards) figures() []figure.Figure {
	passed, added := math.NaN(), math.NaN()
	if r.refused+r.passed > 0 {
		passed = float64(r.passed)
	}
	if r.added >= 0 {
		added = float64(r.added)
	}
	return []figure.Figure{
		{Name: "fence-guards-proved", Value: float64(len(r.proved)), Goal: figure.AtLeast(20)},
		{Name: "fence-wrong-guards-refused", Value: float64(r.refused), Goal: figure.AtLeast(90)},
		{Name: "fence-wrong-guards-passed", Value: passed, Goal: figure.Exactly(0)},
		{Name: "fence-added-statements", Value: added, Goal: figure.AtMost(1)},
	}
}

var logLine = regexp.MustCompile(`^ *\S+\.go:\d+: `)

// complaints returns the lines that say what went wrong, and not those about what
// went right or was wrong on purpose.
func complaints(out string) string {
	var kept []string
	for l := range strings.Lines(out) {
		good := strings.Contains(l, "fencetest: refused ") || provedLine.MatchString(l) || addsLine.MatchString(l)
		if strings.Contains(l, "FAIL") || logLine.MatchString(l) && !good {
			kept = append(kept, strings.TrimRight(l, "\n"))
		}
	}
	return strings.Join(kept, "\n")
}
