// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// TestEveryOtherMutantRunsByCommit: commits of both kinds together run all mutants, and each half of them.
func TestEveryOtherMutantRunsByCommit(t *testing.T) {
	all := []mutant{{name: "a"}, {name: "b"}, {name: "c"}}
	for commit, want := range map[string]string{"": "ac", "f0": "ac", "f1": "b", "1b": "ac", "1a": "b"} {
		got := ""
		for _, m := range everyOther(all, commit) {
			got += m.name
		}
		if got != want {
			t.Errorf("commit %q: got %s, want %s", commit, got, want)
		}
	}
}
