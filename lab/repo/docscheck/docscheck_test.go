// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

func TestSourcesAreSeenFromTheDocument(t *testing.T) {
	got := sources(map[string]string{
		"README.md":       "<!-- from: lab/repo/hello/main.go -->\n",
		"docs/a/b.md":     "text\n<!-- from: ../../s/s_test.go -->\n<!-- from: ../../s/t_test.go -->\n<!-- from: c.txt -->\n",
		"s/other_test.go": "<!-- from: none.go -->\n",
	})
	if want := "[lab/repo/hello/main.go s/s_test.go s/t_test.go]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if got, want := fmt.Sprint(packages(got)), "[./lab/repo/hello ./s]"; got != want {
		t.Errorf("packages: got %s, want %s", got, want)
	}
}

func TestExamplesThatDidNotRunAreNamed(t *testing.T) {
	all, err := findExamples(map[string]string{
		"a_test.go":   "package a\n\nfunc ExampleRan() {\n\t// Output: 1\n}\n\nfunc ExampleFailed() {\n\t// Output: 1\n}\n",
		"s/s_test.go": "package s\n\nfunc Example() {\n\t// Output: 1\n}\n\nfunc ExampleRunByATest() {}\n\nfunc helper() {}\n",
		"s/s.md":      "func ExampleNot() {}",
	})
	must.OK(t, err)
	results, printed, err := read(strings.Join([]string{
		`{"Action":"run","Package":"` + modulePath + `","Test":"ExampleRan"}`,
		`{"Action":"pass","Package":"` + modulePath + `","Test":"ExampleRan"}`,
		`{"Action":"output","Package":"` + modulePath + `","Test":"ExampleFailed","Output":"got: 2\n"}`,
		`{"Action":"fail","Package":"` + modulePath + `","Test":"ExampleFailed"}`,
		`{"Action":"pass","Package":"` + modulePath + `/s"}`,
	}, "\n"))
	must.OK(t, err)
	got := strings.Join(missing(all, results), "\n")
	if want := "a_test.go:7: ExampleFailed: fail\ns/s_test.go:3: Example was not run"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if printed != "got: 2\n" {
		t.Errorf("printed %q", printed)
	}
	if _, _, err := read("build failed"); err == nil {
		t.Error("what is no JSON was accepted")
	}
}

func TestComplaintsAreWhatIsLeft(t *testing.T) {
	out := "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n    b.go:1: docs/a.md:7: no heading\n--- FAIL: TestB\n    c.go:2: counted: 3 pages\nFAIL\n"
	if got, want := complaints(out), "    b.go:1: docs/a.md:7: no heading\n--- FAIL: TestB\nFAIL\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
