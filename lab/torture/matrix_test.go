// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/fencelock/fencelock/lab/internal/deployment"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/torture/internal/cell"
)

// TestSmoke: every cell of CI exists and applies, and every deployment has one but for
// those that differ from another by their grace alone.
func TestSmoke(t *testing.T) {
	used := map[string]bool{}
	for name := range smoke {
		e, f, _ := strings.Cut(name, " ")
		eng, ok := deployment.Named(e)
		k, found := fault.Named(f)
		if !ok || !found {
			t.Errorf("there is no cell %q", name)
			continue
		}
		used[strings.TrimSuffix(e, "-grace")] = true
		shape := eng.Shape
		shape.Clients, shape.TTL = 4, 1
		for _, s := range k.Plan(1, shape) {
			if why := eng.Unfit(s); why != "" {
				t.Errorf("%s does not apply: %s", name, why)
			}
		}
	}
	for _, e := range deployment.All {
		if !used[strings.TrimSuffix(e.Name, "-grace")] {
			t.Errorf("no cell of CI is about %s", e.Name)
		}
	}
	cells, err := matrix(options{smoke: true, rounds: 1})
	if err != nil || len(cells) != len(smoke) {
		t.Errorf("-smoke runs %d cells of %d: %v", len(cells), len(smoke), err)
	}
}

// TestPartIsNotWritten: a part of the matrix does not replace the whole.
func TestPartIsNotWritten(t *testing.T) {
	for _, part := range []string{"-server=redis", "-fault=mix", "-plan=1s kill holder", "-lock=peer:redsync", "-smoke"} {
		if _, err := parse([]string{part, "-part=redis", "-write", "README.md"}); err == nil || !strings.Contains(err.Error(), "whole matrix") {
			t.Errorf("%s with -write: %v", part, err)
		}
		if _, err := parse([]string{part}); err != nil {
			t.Errorf("%s: %v", part, err)
		}
	}
	if _, err := parse([]string{"-write", "README.md", "-lossy", "-fault=reorder"}); err == nil {
		t.Error("a part of the rows of the second matrix replaces all")
	}
	if o, err := parse([]string{"-write", "README.md", "-linger", "-server=redis"}); err != nil || o.block() != "linger" {
		t.Errorf("the third matrix: %v", err)
	}
	if o, err := parse([]string{"-write", "README.md", "-lossy", "-server=redis"}); err != nil || o.block() != "lossy" {
		t.Errorf("the second matrix: %v", err)
	}
	if o, err := parse([]string{"-write", "README.md", "-part", "redis", "-seed", "7", "-parallel", "2"}); err != nil || o.block() != "matrix-redis" {
		t.Errorf("a half of the matrix: %v", err)
	}
	for _, args := range [][]string{{"-write", "README.md"}, {"-part", "etcd"}} {
		if _, err := parse(args); err == nil || !strings.Contains(err.Error(), "-part") {
			t.Errorf("%q: %v; want to be told what -part may be", args, err)
		}
	}
}

// TestPartsAreTheWhole: each deployment is in one half of the matrix.
func TestPartsAreTheWhole(t *testing.T) {
	count := func(part string) int {
		cells, err := matrix(options{part: part, rounds: 1})
		if err != nil {
			t.Error(err)
		}
		return len(cells)
	}
	if whole, redis, others := count(""), count("redis"), count("others"); redis+others != whole || redis == 0 || others == 0 {
		t.Errorf("%d cells: %d of Redis and %d others", whole, redis, others)
	}
	for _, name := range ofRedis {
		if _, ok := deployment.Named(name); !ok {
			t.Errorf("there is no deployment %s", name)
		}
	}
}

// TestFigures: each figure that is missed fails the run.
func TestFigures(t *testing.T) {
	cells := func(n int, status cell.Status, undecided ...string) (results []cell.Result) {
		for range n {
			results = append(results, cell.Result{Status: status, Undecided: undecided})
		}
		return results
	}
	held := cells(18, cell.Held)
	for _, tt := range []struct {
		name    string
		results []cell.Result
		ok      bool
	}{
		{"all held", cells(20, cell.Held), true},
		{"one failed", append(cells(1, cell.Failed), cells(19, cell.Held)...), false},
		{"one was not run", append(cells(1, cell.NotRun), cells(19, cell.Held)...), false},
		{"a tenth is undecided", append(cells(2, cell.Held, "timed"), held...), true},
		{"more is undecided", append(cells(3, cell.Held, "timed"), held...), false},
	} {
		if err := figures(tt.results, 20); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if err := figures(cells(1, cell.Held, "timed"), 1); err != nil {
		t.Errorf("a single cell that is undecided: %v", err)
	}
}

// TestThirdMatrix: its rows are faults that there are, and those of it alone are in no other.
func TestThirdMatrix(t *testing.T) {
	for _, name := range lingering {
		if _, ok := fault.Named(name); !ok {
			t.Errorf("there is no fault %q", name)
		}
	}
	for _, o := range []options{{}, {lossy: true}, {linger: true}} {
		k, _ := fault.Named("break")
		if o.rows(k) != o.linger {
			t.Errorf("lossy %t, linger %t: break is a row: %t", o.lossy, o.linger, o.rows(k))
		}
	}
}
