// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// TestMutantsFitTheSource: each mutant changes a text that is in the source once, inside
// one function, and has a unique name. A change of the code must move its mutants.
func TestMutantsFitTheSource(t *testing.T) {
	b := binaries{root: "../..", dir: t.TempDir()}
	killable, equivalents, err := mutants()
	must.OK(t, err)
	all := slices.Concat(killable, equivalents)
	if _, err := b.overlay(all); err != nil {
		t.Error(err)
	}
	names := map[string]bool{}
	for _, c := range all {
		if names[c.name] {
			t.Errorf("two mutants are called %s", c.name)
		}
		names[c.name] = true
	}
}

// TestNamedTestsExist: a mutant whose test was renamed would survive, and say so only
// after minutes.
func TestNamedTestsExist(t *testing.T) {
	text := map[string]string{}
	killable, _, err := mutants()
	must.OK(t, err)
	for _, c := range killable {
		pkg := c.catcher.pkg
		if c.catcher.test == "" {
			continue
		}
		if text[pkg] == "" {
			files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
			must.OK(t, err)
			for _, f := range files {
				raw, err := os.ReadFile(f)
				must.OK(t, err)
				text[pkg] += string(raw)
			}
		}
		if !strings.Contains(text[pkg], "\nfunc "+c.catcher.test+"(t *testing.T)") {
			t.Errorf("mutant %s: there is no %s in %s", c.name, c.catcher.test, pkg)
		}
	}
}

const splitSource = `package p

// T has methods.
type T struct{ n int }

func (T) one(_ int, _ string, rest ...int) (n int) { return 1 }

func (t *T) two() {
	t.n++
	t.n--
}
`
const splitWant = `package p

// T has methods.
type T struct{ n int }

func (unnamed0 T) one(unnamed1 int, unnamed2 string, rest ...int) (n int) {
	if mutated("a") {
		return unnamed0.oneMutant0(unnamed1, unnamed2, rest...)
	}
	return 1
}

func (T) oneMutant0(_ int, _ string, rest ...int) (n int) { return 2 }

func (t *T) two() {
	if mutated("a") {
		t.twoMutant1()
		return
	}

	if mutated("b") {
		t.twoMutant2()
		return
	}

	t.n++
	t.n--
}

func (t *T) twoMutant1() {
	t.n++
}

func (t *T) twoMutant2() {
	t.n--
}
`

// TestSplit: functions of all shapes get a switch and copies that can be compiled.
func TestSplit(t *testing.T) {
	got, err := split("p.go", splitSource, []namedEdit{
		{"a", "return 1", "return 2"}, {"a", "	t.n--\n", ""}, {"b", "	t.n++\n", ""},
	})
	must.OK(t, err)
	formatted, err := format.Source([]byte(got))
	if err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	if string(formatted) != splitWant {
		t.Errorf("got\n%s", formatted)
	}
	for _, bad := range []namedEdit{{"c", "t.n", "0"}, {"c", "nowhere", ""}, {"c", "type T", "type U"}} {
		if _, err := split("p.go", splitSource, []namedEdit{bad}); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
