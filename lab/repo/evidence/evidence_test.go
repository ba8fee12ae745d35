// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/repo/internal/runs"
)

// here runs a test in a folder of its own, as the top of a repository.
func here(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	must.OK(t, os.MkdirAll(folder, 0o755))
}

func aResult() result {
	r := result{run: run{runs.Run{Name: "a", Command: "make a"}}, commit: "0123456789ab", day: time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC), took: 90 * time.Second, load: "0.2", stolen: "1.5", passed: true}
	r.read("noise\nfigure x-ratio 0.5 >=1\nfigure y-count 3 <=4\nfigure x-ratio 0.7 >=1\nfigure z 9 -\n")
	return r
}

func TestResultIsReadAsItWasWritten(t *testing.T) {
	here(t)
	want := aResult()
	must.OK(t, want.write())
	got, err := read(want.run)
	must.OK(t, err)
	if got.line() != want.line() || len(got.figures) != 3 || got.figures[0].Value != 0.7 {
		t.Errorf("%s, %v\nwant %s, %v", got.line(), got.figures, want.line(), want.figures)
	}
	if met, missed := got.met(); met != 2 || missed != 1 {
		t.Errorf("%d met, %d missed, want 2 and 1", met, missed)
	}
}

func TestRunWithoutAResultIsMissing(t *testing.T) {
	here(t)
	why, err := run{runs.Run{Name: "never"}}.older()
	if err != nil || why != "not run" {
		t.Errorf("%q, %v", why, err)
	}
	failed := aResult()
	failed.passed = false
	must.OK(t, failed.write())
	if why, err := failed.run.older(); err != nil || why != "failed" {
		t.Errorf("%q, %v", why, err)
	}
}

func TestMissedGoalNeedsAReason(t *testing.T) {
	all := []result{aResult(), {run: run{runs.Run{Name: "b", Command: "make b"}}}}
	_, unexplained := render(all, map[string]string{})
	if len(unexplained) != 1 || unexplained[0] != "x-ratio" {
		t.Errorf("unexplained: %v, want x-ratio", unexplained)
	}
	text, left := render(all, map[string]string{"x-ratio": "the disk"})
	if len(left) != 0 {
		t.Errorf("unexplained: %v", left)
	}
	for _, want := range []string{"| `make a` | passed | 2, 1 | 90 | 2026-11-18, commit 0123456789ab | 0.2 | 1.5 |", "| `make b` | not run |", "| `x-ratio` | 0.7 | >=1 | the disk |", "| `y-count` | 3 | <=4 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not have %s:\n%s", want, text)
		}
	}
}

func TestLimitsHaveReasons(t *testing.T) {
	if of, err := limitsByName(limits); err != nil || len(of) < 20 {
		t.Errorf("%d reasons, %v", len(of), err)
	}
	for _, wrong := range []string{"a b\n", "a: x\na: y\n"} {
		if _, err := limitsByName(wrong); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}

// TestTargetsExist: a run of a target that was renamed would fail after hours of others.
func TestTargetsExist(t *testing.T) {
	var rules string
	for _, file := range []string{"../../../Makefile", "../../lab.mk"} {
		text, err := os.ReadFile(file)
		must.OK(t, err)
		rules += string(text)
	}
	seen := map[string]bool{}
	for _, r := range all() {
		if seen[r.Name] {
			t.Errorf("two runs are called %s", r.Name)
		}
		seen[r.Name] = true
		if name, ok := strings.CutPrefix(r.Command, "make -s "); ok {
			name, _, _ = strings.Cut(name, " ")
			if !regexp.MustCompile(`(?m)^` + name + `:`).MatchString(rules) {
				t.Errorf("%s: there is no target %s", r.Name, name)
			}
		}
	}
	for _, name := range regexp.MustCompile(`(?m)^figures-[a-z-]+`).FindAllString(rules, -1) {
		if !seen[name] && name != "figures-engines" { // another name of figures-stores
			t.Errorf("make %s is no run", name)
		}
	}
}

func TestStolenTimeIsReadFromTheKernelsCounters(t *testing.T) {
	before := processors("cpu  10 0 10 70 5 0 0 5 3 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
	after := processors("cpu  30 0 20 110 5 0 5 30 9 0\n")
	if got := stolen(before, after); got != "25.0" {
		t.Errorf("%q stolen, want 25 of the 100 ticks between", got)
	}
	for _, stat := range []string{"", "cpu 1 2\n", "cpu a b c d e f g h\n", "intr 1 2 3 4 5 6 7 8 9\n"} {
		if got := stolen(before, processors(stat)); got != "" {
			t.Errorf("%q stolen after %q, want nothing", got, stat)
		}
	}
}
