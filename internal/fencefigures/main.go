// SPDX-License-Identifier: Apache-2.0

// Command fencefigures proves the guards on real servers, shows guards that are
// wrong on purpose to fencetest, and prints
//
//	figure fence-guards-proved N >=5
//	figure fence-wrong-guards-passed N =0
//	figure fence-added-statements N <=1
//
// It fails if a figure misses its goal or cannot be measured, and if a case, a
// test or a whole engine was skipped, because its server is not installed for
// example: it says which. Only Valkey may be missing. It reads the figures from what
// the tests say, because the guards are in several modules, which the root must not
// import.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// suites are the tests to run: the packages, and which of their tests. Package
// fencetest has only the wrong ones: its right guard guards nothing real.
var suites = [][]string{
	{"-run", "Refused", "./fencetest"},
	{"-run", "Guard|Refused|AddedStatements", "./fence/...", "./fenceproof", "./redisstore/redisfence", "./etcdfence"},
}

func main() {
	var said strings.Builder
	failed := false
	for _, s := range suites {
		out, err := exec.Command("go", append([]string{"test", "-count=1", "-v"}, s...)...).CombinedOutput()
		said.Write(out)
		if err != nil {
			fmt.Fprintf(os.Stderr, "fencefigures: go test %s: %v\n%s\n", strings.Join(s, " "), err, complaints(string(out)))
			failed = true
		}
	}
	r := read(said.String())
	fmt.Printf("fence: proved: %s\n", strings.Join(r.proved, "; "))
	for _, p := range r.partly {
		fmt.Printf("fence: proved in part, and not counted: %s\n", p)
	}
	for _, s := range r.skipped {
		fmt.Printf("fence: skipped: %s\n", s)
		// Not every Debian has Valkey: it is told, as by the part servers of .ci/run.
		failed = failed || !strings.Contains(s, "valkey")
	}
	failed = failed || len(r.partly) > 0
	fmt.Printf("fence: %d wrong guards shown, %d refused\n", r.refused+r.passed, r.refused)
	for _, f := range r.figures() {
		fmt.Println(f.line)
		failed = failed || !f.met
	}
	if failed {
		fmt.Fprintln(os.Stderr, "fencefigures: a figure misses its goal, or a test failed or was skipped")
		os.Exit(1)
	}
}

// result is what the tests said.
type result struct {
	proved          []string // names of guards, without those of which a case was skipped
	partly          []string // names of those, with the clauses that were skipped
	skipped         []string // names of tests, with the reason
	refused, passed int      // wrong guards
	added           int      // round trips at most, -1 if nobody counted
}

var (
	provedLine  = regexp.MustCompile(`fencetest: proved (.+): \d+ cases passed, 0 failed`)
	partlyLine  = regexp.MustCompile(`fencetest: PARTLY PROVED (.+): \d+ cases passed, 0 failed, (\d+ skipped \(.+\))`)
	skippedLine = regexp.MustCompile(`(?m)^(?: *\S+\.go:\d+: (.*)\n)? *--- SKIP: (\S+)`)
	refusedLine = regexp.MustCompile(`fencetest: refused `)
	passedLine  = regexp.MustCompile(`fencetest: PASSED `)
	addsLine    = regexp.MustCompile(`fencetest: .* adds (-?\d+) round trips`)
)

func read(said string) result {
	r := result{refused: len(refusedLine.FindAllString(said, -1)), passed: len(passedLine.FindAllString(said, -1)), added: -1}
	for _, m := range provedLine.FindAllStringSubmatch(said, -1) {
		r.proved = append(r.proved, m[1])
	}
	for _, m := range partlyLine.FindAllStringSubmatch(said, -1) {
		r.partly = append(r.partly, m[1]+", "+m[2])
	}
	for _, m := range skippedLine.FindAllStringSubmatch(said, -1) {
		r.skipped = append(r.skipped, strings.TrimSuffix(m[2]+": "+m[1], ": "))
	}
	for _, m := range addsLine.FindAllStringSubmatch(said, -1) {
		n, _ := strconv.Atoi(m[1])
		r.added = max(r.added, n)
	}
	return r
}

// figure is a line for people and programs.
type figure struct {
	line string
	met  bool
}

func (r result) figures() []figure {
	show := func(name string, value int, known bool, goal string, met bool) figure {
		text := "missing"
		if known {
			text = strconv.Itoa(value)
		}
		return figure{fmt.Sprintf("figure %s %s %s", name, text, goal), known && met}
	}
	shown := r.refused+r.passed > 0
	return []figure{
		show("fence-guards-proved", len(r.proved), true, ">=5", len(r.proved) >= 5),
		show("fence-wrong-guards-passed", r.passed, shown, "=0", r.passed == 0),
		show("fence-added-statements", r.added, r.added >= 0, "<=1", r.added <= 1),
	}
}

var saidLine = regexp.MustCompile(`^ *\S+\.go:\d+: `)

// complaints returns the lines that say what went wrong, and not those about what
// went right or was wrong on purpose.
func complaints(out string) string {
	var kept []string
	for l := range strings.Lines(out) {
		good := strings.Contains(l, "fencetest: refused ") || provedLine.MatchString(l) || addsLine.MatchString(l)
		if strings.Contains(l, "FAIL") || saidLine.MatchString(l) && !good {
			kept = append(kept, strings.TrimRight(l, "\n"))
		}
	}
	return strings.Join(kept, "\n")
}
