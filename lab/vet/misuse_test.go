// SPDX-License-Identifier: Apache-2.0

package vet_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/figure"
)

var figures = flag.Bool("vet.figures", false, "search this repository and the code of others, and measure the time; minutes")

// A report is what an analyzer has to say about one line.
type report struct{ file, line, check, message string }

func (r report) String() string {
	return fmt.Sprintf("%s:%s: %s: %s", r.file, r.line, r.check, r.message)
}

// build compiles a command of module vet. The flag -X names no variable; another value makes another binary, of which go
// vet has no results.
func build(t *testing.T, pkg, stamp string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "tool")
	out, err := exec.Command("go", "build", "-o", bin, "-ldflags", "-X main.stamp="+stamp, pkg).CombinedOutput()
	if err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	return bin
}

const (
	command = "github.com/fencelock/fencelock/vet/cmd/fencelockvet"
	alike   = "github.com/fencelock/fencelock/vet/internal/alike"
)

// run returns the reports of an analyzer on packages, in the module of dir.
func run(t *testing.T, bin, dir string, args ...string) []report {
	t.Helper()
	cmd := exec.Command(bin, append([]string{"-json"}, args...)...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", bin, err)
	}
	var tree map[string]map[string]json.RawMessage // by package and check
	if err := json.Unmarshal(out, &tree); err != nil {
		t.Fatalf("%v in %.200s", err, out)
	}
	var list []report
	for pkg, checks := range tree {
		for check, raw := range checks {
			var found []struct{ Posn, Message string }
			if err := json.Unmarshal(raw, &found); err != nil {
				t.Fatalf("%s: %s: %s", pkg, check, raw) // an error instead of reports
			}
			for _, f := range found {
				at := strings.Split(f.Posn, ":")
				list = append(list, report{file: at[0], line: at[1], check: check, message: f.Message})
			}
		}
	}
	slices.SortFunc(list, func(a, b report) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(list) // a package and its test variant have the same files
}

// marked returns the lines of the misuses that say which check should find them.
func marked(t *testing.T) []report {
	t.Helper()
	files, err := filepath.Glob("testdata/misuses/*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no misuses: %v", err)
	}
	var list []report
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		abs, _ := filepath.Abs(f)
		for i, l := range strings.Split(string(text), "\n") {
			if _, check, ok := strings.Cut(l, "// misuse: "); ok {
				list = append(list, report{file: abs, line: fmt.Sprint(i + 1), check: check})
			}
		}
	}
	return list
}

// TestMisuses: the analyzers find nearly all misuses of small programs, and report nothing else in them.
func TestMisuses(t *testing.T) {
	reports := run(t, build(t, command, ""), ".", "./testdata/misuses/...")
	want := marked(t)
	same := func(a, b report) bool { return a.file == b.file && a.line == b.line && a.check == b.check }
	found := 0
	for _, w := range want {
		if slices.ContainsFunc(reports, func(r report) bool { return same(r, w) }) {
			found++
		} else {
			t.Logf("not found: %s", w)
		}
	}
	ratio := float64(found) / float64(len(want))
	figure.Print("vet-misuses", len(want), figure.AtLeast(40))
	figure.Print("vet-misuses-found", ratio, figure.AtLeast(0.95))
	if len(want) < 40 || ratio < 0.95 {
		t.Errorf("found %d of %d misuses", found, len(want))
	}
	for _, r := range reports {
		if !slices.ContainsFunc(want, func(w report) bool { return same(r, w) }) {
			t.Errorf("no misuse: %s", r)
		}
	}
}
