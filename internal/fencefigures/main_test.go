// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
)

func lines(said string) string {
	var text []string
	for _, f := range read(said).figures() {
		text = append(text, fmt.Sprint(f.line, " ", f.met))
	}
	return strings.Join(text, "\n")
}

// TestASkippedCaseIsNoProof: such a guard does not count, and is named.
func TestASkippedCaseIsNoProof(t *testing.T) {
	r := read("a.go:1: fencetest: PARTLY PROVED files: 13 cases passed, 0 failed, 3 skipped (G7, G9)\n    skipped G9/restart: needs Harness.Restart\n")
	if len(r.proved) != 0 || len(r.partly) != 1 || r.partly[0] != "files, 3 skipped (G7, G9)" {
		t.Errorf("got %+v", r)
	}
}

func TestFigures(t *testing.T) {
	proved := "    a.go:1: fencetest: proved files: 16 cases passed, 0 failed, 0 skipped\n"
	good := strings.Repeat(proved, 5) + "x: fencetest: refused a wrong one: G1\nfencetest: Redis adds 0 round trips\nfencetest: fence table on mariadb adds 1 round trips\n"
	for _, tt := range []struct{ what, said, want string }{
		{"all is well", good, "figure fence-guards-proved 5 >=5 true\nfigure fence-wrong-guards-passed 0 =0 true\nfigure fence-added-statements 1 <=1 true"},
		{"nothing ran", "", "figure fence-guards-proved 0 >=5 false\nfigure fence-wrong-guards-passed missing =0 false\nfigure fence-added-statements missing <=1 false"},
		{"one passed, one was not proved, one costs two", "fencetest: PASSED x: y\nfencetest: NOT PROVED z: 15 cases passed, 1 failed, 0 skipped\nfencetest: z adds 2 round trips\n",
			"figure fence-guards-proved 0 >=5 false\nfigure fence-wrong-guards-passed 1 =0 false\nfigure fence-added-statements 2 <=1 false"},
	} {
		if got := lines(tt.said); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.what, got, tt.want)
		}
	}
}
