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

// check runs the analyzer on the package of its name in testdata. The file has what it must report, with the words, and
// what it must not report.
func check(t *testing.T, name string) {
	t.Helper()
	analysistest.Run(t, analysistest.TestData(), named(t, name), name)
}

// checkFixes also compares the golden file with what the suggested fixes make of the file.
func checkFixes(t *testing.T, name string) {
	t.Helper()
	analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), named(t, name), name)
}

func TestLeaseLeak(t *testing.T)        { checkFixes(t, "leaseleak") }
func TestOuterContext(t *testing.T)     { checkFixes(t, "outerctx") }
func TestSelfLock(t *testing.T)         { checkFixes(t, "selflock") }
func TestUnlockError(t *testing.T)      { checkFixes(t, "unlockerr") }
func TestLeaseContext(t *testing.T)     { check(t, "leasectx") }
func TestClientPerRequest(t *testing.T) { check(t, "clientperrequest") }
func TestTokenCheck(t *testing.T)       { check(t, "tokencheck") }

// TestOuterContextOfARequest: the context of a request is an outer context, too.
func TestOuterContextOfARequest(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), named(t, "outerctx"), "outerrequest")
}

// TestWrappers: a function of another package that locks is known by its name and its results.
func TestWrappers(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), named(t, "leaseleak"), "wrapped")
}

// TestHooks: a package that listens to LeaseLost notices a loss without a look at the lease.
func TestHooks(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), named(t, "leasectx"), "hooks")
}

// TestGuards: in a package that imports a guard, a statement may be guarded in a way that is not seen.
func TestGuards(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), named(t, "tokencheck"), "guarded")
}

// TestIgnore: a comment switches the checks that it names off, for its line or for the one below it, if it has a reason.
func TestIgnore(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), named(t, "outerctx"), "ignore")
}

// TestNamesThatChange: a lock of the parent or of the next shard is another lock, and a context that is made in many
// steps is looked at in linear time.
func TestNamesThatChange(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), named(t, "selflock"), "selflocknames")
}

// TestOuterContextAfterTheLoss: what runs when the inner context has ended needs another one. No fix gives a parameter the name of a
// variable beside it.
func TestOuterContextAfterTheLoss(t *testing.T) {
	analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), named(t, "outerctx"), "afterloss")
}

// TestHandlesMadeElsewhere: MaxHold is found where a handle was made, and a method of an interface locks, too.
func TestHandlesMadeElsewhere(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), named(t, "leaseleak"), "handles")
}

// TestFixesKeepTheRest: a fix that moves a line leaves comments and other functions alone, and counts the lines of
// the file, not those that a line directive names.
func TestFixesKeepTheRest(t *testing.T) {
	analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), named(t, "unlockerr"), "unlockfix", "linedirective")
}

// TestFilesOfCgo: people wrote them, though they say that they are generated. Nothing changes the file that cgo made.
func TestFilesOfCgo(t *testing.T) {
	analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), named(t, "leaseleak"), "cgofile")
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
