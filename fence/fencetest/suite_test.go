// SPDX-License-Identifier: Apache-2.0

package fencetest_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/internal/must"
)

// TestRulesAreThoseOfTheSpecification compares word for word, in order.
func TestRulesAreThoseOfTheSpecification(t *testing.T) {
	text, err := os.ReadFile("../../docs/spec.md")
	must.OK(t, err)
	var inSpec []fencetest.Clause
	for _, m := range regexp.MustCompile(`(?m)^- \*\*(G\d+)\*\* (.*)$`).FindAllStringSubmatch(string(text), -1) {
		inSpec = append(inSpec, fencetest.Clause{ID: m[1], Rule: m[2]})
	}
	if !slices.Equal(inSpec, fencetest.Clauses()) {
		t.Errorf("docs/spec.md says\n%q\nfencetest says\n%q", inSpec, fencetest.Clauses())
	}
}

func TestEveryClauseHasACase(t *testing.T) {
	names := map[string]bool{}
	for _, c := range fencetest.Cases() {
		if names[c.Name] {
			t.Errorf("two cases are called %s", c.Name)
		}
		names[c.Name] = true
	}
	for _, c := range fencetest.Clauses() {
		if !slices.ContainsFunc(fencetest.Cases(), func(k fencetest.Case) bool { return k.Clause == c }) {
			t.Errorf("%s has no case", c.ID)
		}
	}
}

// TestNoCaseIsLost finds a list of cases that Cases leaves out, by counting the
// lines they are written on.
func TestNoCaseIsLost(t *testing.T) {
	written := regexp.MustCompile(`(?m)^\t\{"G\d+", "[^"]+", \w+, \w+\},$`)
	files, err := os.ReadDir(".")
	must.OK(t, err)
	want := 0
	for _, f := range files {
		if text, err := os.ReadFile(f.Name()); err == nil && !strings.HasSuffix(f.Name(), "_test.go") {
			want += len(written.FindAll(text, -1))
		}
	}
	if got := len(fencetest.Cases()); got != want {
		t.Errorf("Cases returns %d cases, %d are written down", got, want)
	}
}

// TestEveryCaseRefusesSomething: a case that no wrong guard fails may be one
// that cannot fail.
func TestEveryCaseRefusesSomething(t *testing.T) {
	caught := map[string]bool{"G9/restart": true, "G5/similar-names-apart": true} // TestFenceInMemoryIsRefused, TestFencesOfCutNamesAreRefused
	for _, w := range wrongGuards {
		caught[w.caught] = true
	}
	for _, c := range fencetest.Cases() {
		if !caught[c.Name] {
			t.Errorf("no wrong guard is there for %s; write one", c.Name)
		}
	}
}
