// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"
)

// TestCommitsTogetherRunAllMutants: each commit runs a share of them, and no mutant is left out by all commits.
func TestCommitsTogetherRunAllMutants(t *testing.T) {
	all := make([]mutant, 10)
	for i := range all {
		all[i].name = fmt.Sprint(i)
	}
	ran := map[string]bool{}
	for i := range 64 {
		some := everyNth(all, 4, fmt.Sprintf("%02x", i))
		if n := len(some); n < 2 || n > 3 {
			t.Errorf("commit %02x runs %d of 10, want a quarter", i, n)
		}
		for _, m := range some {
			ran[m.name] = true
		}
	}
	if len(ran) != len(all) {
		t.Errorf("all commits together run %d of %d", len(ran), len(all))
	}
	if n := len(everyNth(all, 1, "f1")); n != len(all) {
		t.Errorf("without a share %d run, want all %d", n, len(all))
	}
}
