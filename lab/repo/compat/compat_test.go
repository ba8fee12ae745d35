// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/internal/checkout"
)

// TestCell: one cell is replaced, a new version gets a row in its place, and all else
// stays.
func TestCell(t *testing.T) {
	page := "before\n" + begin + "\n\n" + heading +
		"| etcd 3.4.23 | 5 passed, 2026-11-01 | not run | not run |\n| etcd 3.10.1 | not run | not run | not run |\n" +
		"\n" + end + "\nafter\n"
	for _, c := range []struct {
		title string
		suite suite
	}{{"etcd 3.6.16", failover}, {"PostgreSQL 18.6", conformance}, {"etcd 3.4.23", torture}} {
		var err error
		if page, err = withCell(page, c.title, c.suite, "7 passed"); err != nil {
			t.Fatal(err)
		}
	}
	want := "before\n" + begin + "\n\n" + heading +
		"| PostgreSQL 18.6 | 7 passed | not run | not run |\n" +
		"| etcd 3.4.23 | 5 passed, 2026-11-01 | not run | 7 passed |\n" +
		"| etcd 3.6.16 | not run | 7 passed | not run |\n" +
		"| etcd 3.10.1 | not run | not run | not run |\n" +
		"\n" + end + "\nafter\n"
	if page != want {
		t.Errorf("got\n%s\nwant\n%s", page, want)
	}
	if cellOf(page, "etcd 3.6.16", failover) != "7 passed" || cellOf(page, "etcd 3.6.16", torture) != notRun || cellOf(page, "etcd 9", torture) != notRun {
		t.Error("cellOf: want only the cell that was run")
	}
	if _, err := withCell("no table", "etcd 3.6.16", failover, "7 passed"); err == nil || !strings.Contains(err.Error(), begin) {
		t.Errorf("a page without a table: %v", err)
	}
}

// TestCellOfOtherCodeIsRunAgain: a cell counts if it passed on the code that is checked out.
func TestCellOfOtherCodeIsRunAgain(t *testing.T) {
	head := checkout.Commit(".")
	if head == "" {
		t.Skip("needs the repository of git")
	}
	head, _, _ = strings.Cut(head, " ")
	etcd := version{server: kinds[slices.IndexFunc(kinds, func(s server) bool { return s.name == "etcd" })], number: "3.6.16"}
	for cell, want := range map[string]bool{
		"7 passed, 2026-11-01, " + head:                  true,
		"7 passed, 2026-11-01, " + head + " and changes": false,
		"**1 failed**, 7 passed, 2026-11-01, " + head:    false,
		"7 passed, 2026-11-01, 0000000":                  false, // not here
		notRun:                                           false,
	} {
		page, err := withCell(begin+heading+end, etcd.title(), torture, cell)
		must.OK(t, err)
		if got, err := etcd.measured(page, torture); got != want || err != nil {
			t.Errorf("%q is of this code: %v, %v; want %v", cell, got, err, want)
		}
	}
}

// TestCount: tests with subtests do not count, skipped ones neither, nor those none of whose
// subtests the pattern chose.
func TestCount(t *testing.T) {
	text := `=== RUN   TestConformance
--- FAIL: TestConformance (3.00s)
    --- FAIL: TestConformance/one (2.00s)
        --- PASS: TestConformance/one/S1/opens (0.10s)
        --- FAIL: TestConformance/one/H4/kept (0.10s)
        --- SKIP: TestConformance/one/R1/restarted (0.00s)
    --- PASS: TestConformance/two (2.00s)
--- PASS: TestAlone (0.00s)
--- FAIL: TestBroken (0.00s)
`
	for pattern, want := range map[string]counts{
		"^Test":               {passed: 3, failed: 2},
		"^Test/^(one|two)$":   {passed: 2, failed: 2},
		"^Test/^one$/^[SHR]1": {passed: 1, failed: 2},
	} {
		if got := count(text, pattern); got != want {
			t.Errorf("%s: got %+v, want %+v", pattern, got, want)
		}
	}
	if got, want := cells("figure torture-cells-failed 1 (want 0)\nfigure torture-cells-run 18 >=1\nfigure torture-cells-failed 1 =0\n"), (counts{passed: 17, failed: 1}); got != want {
		t.Errorf("cells: got %+v, want %+v", got, want)
	}
}

// TestText: a failure is seen at once, and a suite in which nothing ran is not run.
func TestText(t *testing.T) {
	at := time.Date(2026, 11, 16, 7, 0, 0, 0, time.UTC)
	for c, want := range map[counts]string{
		{}:     notRun,
		{5, 0}: "5 passed, 2026-11-16, 0123abc",
		{5, 2}: "**2 failed**, 5 passed, 2026-11-16, 0123abc",
	} {
		if got := c.text(at, "0123abc"); got != want {
			t.Errorf("%+v is %q, want %q", c, got, want)
		}
	}
}

// TestFind: what .ci/servers-new has installed is found by the variable in its folder, and
// is tested by that variable.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "etcd-9", "etcd")
	must.OK(t, os.MkdirAll(filepath.Dir(program), 0o755))
	for file, text := range map[string]string{program: "#!/bin/sh\necho etcd Version: 99.1.2\n", filepath.Join(dir, "etcd-9", "env"): "ETCD=" + program + "\n"} {
		must.OK(t, os.WriteFile(file, []byte(text), 0o755))
	}
	found, err := find(dir)
	must.OK(t, err)
	for _, v := range found {
		if v.title() == "etcd 99.1.2" {
			if env := v.env(conformance); len(env) != 1 || env[0] != "ETCD="+program {
				t.Errorf("its variables are %q", env)
			}
			return
		}
	}
	t.Errorf("etcd 99.1.2 is not among %d versions", len(found))
}

// TestPage: the page has a table that can be updated.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../../lab/results/versions.md")
	must.OK(t, err)
	_, table, _, err := cut(string(text))
	must.OK(t, err)
	if got, want := render(parse(table)), strings.TrimSpace(table)+"\n"; got != want {
		t.Errorf("the table is\n%s\nwant\n%s", want, got)
	}
}
