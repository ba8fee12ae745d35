// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// TestReportsOlderThanTheirCode: c1 is of other code, and c2 and c3 of the code that is checked out.
func TestReportsOlderThanTheirCode(t *testing.T) {
	const c1, c2, c3 = "1111111", "2222222222222222222222222222222222222222", "3333333"
	changed := func(commit string) (string, error) {
		if commit == c1 {
			return "is of " + c1, nil
		}
		return "", nil
	}
	for _, tt := range []struct {
		name, text string
		r          report
		want       string
	}{
		{"measured later", "Commit " + c3 + ".", report{runs: oneResult}, ""},
		{"measured on the change itself", "commit " + c2, report{runs: oneResult}, ""},
		{"measured before", "commit " + c1, report{runs: oneResult}, "is of " + c1},
		{"one run of two before", "Seed 1, commit " + c3 + ", by x -lossy y\nSeed 2, commit " + c1 + ", by x -lossy y\n", report{runs: seeds("-lossy")}, "is of " + c1},
		{"no commit", "2026-11-16", report{runs: oneResult}, "1 of 1 runs name no commit"},
		{"one run of two names none", "Seed 1, commit " + c3 + ", by x -lossy y\nSeed 2, 2026-11-16, by x -lossy y\n", report{runs: seeds("-lossy")}, "1 of 2 runs name no commit"},
		{"not committed", `"Machine": {"Go": "go1.26", "Commit": "` + c3 + ` with uncommitted changes"}`, report{runs: machines}, "not committed"},
		{"perhaps not committed", "commit " + c3 + ", perhaps with uncommitted changes", report{runs: oneResult}, "not committed"},
		{"a machine", `"Machine": {"Go": "go1.26", "Commit": "` + c3 + `"}`, report{runs: machines}, ""},
		{"a soak", `{"server":"etcd","seed":1,"commit":"` + c1 + `f"}`, report{runs: oneResult}, ""},
		{"a soak before", `{"server":"etcd","seed":1,"commit":"` + c1 + `"}`, report{runs: oneResult}, "is of " + c1},
		{"a cell", "| Redis | 2 passed, 2026-11-16, " + c3 + " |", report{runs: testedCells}, ""},
		{"a cell without", "| Redis | 2 passed, 2026-11-16, " + c3 + " | 3 passed, 2026-11-16 |", report{runs: testedCells}, "1 of 2 runs"},
		{"nothing in it", "| Redis | not run |", report{runs: testedCells}, "no run was found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := older(tt.r, tt.text, changed)
			must.OK(t, err)
			if got != tt.want && (tt.want == "" || !strings.Contains(got, tt.want)) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestChangelogHasTheDay(t *testing.T) {
	const gomod = "module x\n\nrequire (\n\tgithub.com/fencelock/fencelock v0.2.0\n\tgithub.com/fencelock/fencelock/store/redisstore v0.3.0\n)\n"
	must.OK(t, dated("# Changelog\n\n## v0.2.0, 2026-12-01\n\n## v0.1.0, 2026-11-01\n", gomod))
	for _, changelog := range []string{"", "## Unreleased\n\n## v0.2.0, 2026-12-01\n", "## v0.2.0, unreleased\n", "## v0.1.0, 2026-12-01\n"} {
		if dated(changelog, gomod) == nil {
			t.Errorf("accepted %q", changelog)
		}
	}
}

// TestReportsAreListed: a result that is not listed would never be too old. A page that is made of results beside it is no report of its own.
func TestReportsAreListed(t *testing.T) {
	made := []string{"lab/results/scale.md"}
	evidence := "lab/results/evidence" // which evidence.md is made of
	top := os.DirFS("../../..")
	var listed []string
	for _, r := range reports() {
		listed = append(listed, r.file)
		if _, err := fs.Stat(top, r.file); err != nil {
			t.Error(err)
		}
	}
	for _, dir := range []string{"lab/results", "lab/load/results"} {
		must.OK(t, fs.WalkDir(top, dir, func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || path.Dir(file) == evidence || slices.Contains(listed, file) || slices.Contains(made, file) || path.Ext(file) == ".svg" || path.Base(file) == "README.md" {
				return err
			}
			t.Errorf("%s is not in reports()", file)
			return nil
		}))
	}
}
