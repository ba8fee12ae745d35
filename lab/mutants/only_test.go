// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestWrongNameIsRejectedBeforeTheBuild: without a program go the build would fail with another error.
func TestWrongNameIsRejectedBeforeTheBuild(t *testing.T) {
	t.Setenv("PATH", "")
	for only, want := range map[string]string{"no-such-mutant": `no mutant matches "no-such-mutant"`, "(": "-only: "} {
		if err := run(options{only: only}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("-only %s: got %v, want %s", only, err, want)
		}
	}
}
