// SPDX-License-Identifier: Apache-2.0

package vet_test

import (
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/fencelock/fencelock/vet"
)

// named returns the analyzer of that name.
func named(t *testing.T, name string) *analysis.Analyzer {
	t.Helper()
	for _, a := range vet.All {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("no analyzer is called %s", name)
	return nil
}

// TestChecks: each file of testdata has what its check must report, with the words, and what it must not report. Where a check
// suggests fixes, the golden file is what they make of the file.
func TestChecks(t *testing.T) {
	for _, tt := range []struct {
		check string
		fixes bool
	}{
		{"leaseleak", true},
		{"outerctx", true},
		{"leasectx", false},
		{"selflock", true},
		{"unlockerr", true},
		{"clientperrequest", false},
		{"tokencheck", false},
	} {
		t.Run(tt.check, func(t *testing.T) {
			if tt.fixes {
				analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), named(t, tt.check), tt.check)
			} else {
				analysistest.Run(t, analysistest.TestData(), named(t, tt.check), tt.check)
			}
		})
	}
}

// TestWrappers: a function of another package that locks is known by its name and its results.
func TestWrappers(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), named(t, "leaseleak"), "wrapped")
}

// TestHooks: a package that listens to LeaseLost notices a loss without a look at the lease.
func TestHooks(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), named(t, "leasectx"), "hooks")
}

// TestIgnore: a comment switches the checks that it names off, for its line and the next one, if it has a reason.
func TestIgnore(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), named(t, "outerctx"), "ignore")
}

// TestTestsAreLeftAlone: what tests do is meant, but people copy from examples.
func TestTestsAreLeftAlone(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), named(t, "leaseleak"), "tests")
}

// TestAllAreValid: names and documentation are as drivers want them.
func TestAllAreValid(t *testing.T) {
	if err := analysis.Validate(vet.All); err != nil {
		t.Error(err)
	}
}
