// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

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
