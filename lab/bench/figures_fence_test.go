// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func guardFigures(output string) string {
	var text []string
	for _, f := range readGuards(output).figures() {
		text = append(text, fmt.Sprint(f, " ", f.Met()))
	}
	return strings.Join(text, "\n")
}

// TestASkippedCaseIsNoProof: such a guard does not count, and is named.
func TestASkippedCaseIsNoProof(t *testing.T) {
	r := readGuards("a.go:1: fencetest: PARTLY PROVED files: 13 cases passed, 0 failed, 3 skipped (G7, G9)\n    skipped G9/restart: needs Harness.Restart\n")
	if len(r.proved) != 0 || len(r.partly) != 1 || r.partly[0] != "files, 3 skipped (G7, G9)" {
		t.Errorf("got %+v", r)
	}
}

// TestWhatIsSkippedIsNamed: a server whose server is not installed, as go test
// says it, and a case.
func TestWhatIsSkippedIsNamed(t *testing.T) {
	r := readGuards("=== RUN   TestGuard\n    server_test.go:36: etcd is not installed; on Debian: apt-get install etcd-server\n--- SKIP: TestGuard (0.00s)\n" +
		"=== RUN   TestTableGuard/mariadb\n    engine_test.go:60: mariadbd: not installed\n--- PASS: TestTableGuard (1.00s)\n    --- SKIP: TestTableGuard/mariadb (0.00s)\n")
	want := []string{"TestGuard: etcd is not installed; on Debian: apt-get install etcd-server", "TestTableGuard/mariadb"}
	if !slices.Equal(r.skipped, want) {
		t.Errorf("got %q, want %q", r.skipped, want)
	}
}

func TestComplaintsAreAboutWhatWentWrong(t *testing.T) {
	good := "=== RUN   TestA\n    a_test.go:1: fencetest: refused a wrong one: G1/retry: violated: A token\n        \twriting a\n" +
		"    a_test.go:2: fencetest: proved files: 16 cases passed, 0 failed, 0 skipped\n    a_test.go:3: fencetest: etcd adds 0 round trips\n--- PASS: TestA (0.00s)\n"
	bad := "    a_test.go:4: mariadbd: no such file\n--- FAIL: TestB (0.00s)"
	if got := complaints(good + bad + "\n"); got != bad {
		t.Errorf("got\n%s\nwant\n%s", got, bad)
	}
}

func TestFenceFigures(t *testing.T) {
	proved := "    a.go:1: fencetest: proved files: 16 cases passed, 0 failed, 0 skipped\n"
	good := strings.Repeat(proved, 20) + strings.Repeat("x: fencetest: refused a wrong one: G1\n", 90) + "fencetest: Redis adds 0 round trips\nfencetest: fence table on mariadb adds 1 round trips\n"
	for _, tt := range []struct{ what, output, want string }{
		{"all is well", good, "figure fence-guards-proved 20 >=20 true\nfigure fence-wrong-guards-refused 90 >=90 true\nfigure fence-wrong-guards-passed 0 =0 true\nfigure fence-added-statements 1 <=1 true"},
		{"nothing ran", "", "figure fence-guards-proved 0 >=20 false\nfigure fence-wrong-guards-refused 0 >=90 false\nfigure fence-wrong-guards-passed missing =0 false\nfigure fence-added-statements missing <=1 false"},
		{"one passed, one was not proved, one costs two", "fencetest: PASSED x: y\nfencetest: NOT PROVED z: 15 cases passed, 1 failed, 0 skipped\nfencetest: z adds 2 round trips\n",
			"figure fence-guards-proved 0 >=20 false\nfigure fence-wrong-guards-refused 0 >=90 false\nfigure fence-wrong-guards-passed 1 =0 false\nfigure fence-added-statements 2 <=1 false"},
	} {
		if got := guardFigures(tt.output); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.what, got, tt.want)
		}
	}
}
