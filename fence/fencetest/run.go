// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Failure is one violation of a clause. It is an error.
type Failure struct {
	// Clause is the violated clause with its rule.
	Clause Clause
	// Case is the name of the case: "G2/delayed-writer".
	Case string
	// Text is what was expected and what was found.
	Text string
}

// Error returns the case, the rule and the text.
func (f *Failure) Error() string {
	return fmt.Sprintf("%s: violated: %s\n\t%s", f.Case, f.Clause.Rule, f.Text)
}

// Result is what came of one case.
type Result struct {
	// Case is the case that was run or skipped.
	Case Case
	// Skipped is why the case was not run, or empty.
	Skipped string
	// Failures are the violations found, none if the case passed.
	Failures []*Failure
}

// Report is what came of all cases, in the order of Cases.
type Report struct {
	// Name is the name of the guard.
	Name string
	// Results has one entry for every case that was run or skipped.
	Results []Result
}

// Counts returns how many cases passed, failed and were skipped.
func (r *Report) Counts() (passed, failed, skipped int) {
	for _, res := range r.Results {
		switch {
		case res.Skipped != "":
			skipped++
		case len(res.Failures) > 0:
			failed++
		default:
			passed++
		}
	}
	return passed, failed, skipped
}

// Err joins all failures, each a *Failure. It is nil if no case failed.
func (r *Report) Err() error {
	var errs []error
	for _, res := range r.Results {
		for _, f := range res.Failures {
			errs = append(errs, f)
		}
	}
	return errors.Join(errs...)
}

// String returns one line with the counts and the clauses that were skipped, and
// a line for each skipped case. A guard is "proved" only if no case was skipped.
func (r *Report) String() string {
	passed, failed, skipped := r.Counts()
	verdict := "proved"
	switch {
	case failed > 0 || passed == 0:
		verdict = "NOT PROVED"
	case skipped > 0:
		verdict = "PARTLY PROVED"
	}
	text := fmt.Sprintf("fencetest: %s %s: %d cases passed, %d failed, %d skipped", verdict, r.Name, passed, failed, skipped)
	var clauses []string
	why := ""
	for _, res := range r.Results {
		if res.Skipped == "" {
			continue
		}
		why += fmt.Sprintf("\nskipped %s: %s", res.Case.Name, res.Skipped)
		if id := res.Case.Clause.ID; !slices.Contains(clauses, id) {
			clauses = append(clauses, id)
		}
	}
	if clauses != nil {
		text += " (" + strings.Join(clauses, ", ") + ")"
	}
	return text + why
}

// Check runs one case.
func (c Case) Check(ctx context.Context, h *Harness) Result {
	r := Result{Case: c, Skipped: c.needs(h)}
	if r.Skipped == "" {
		t := newScene(ctx, c, h)
		t.play()
		r.Skipped, r.Failures = t.skipped, t.failures
	}
	return r
}

// Run proves a guard with one subtest per case.
func Run(t *testing.T, h *Harness) {
	t.Helper()
	report := &Report{Name: h.Name}
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			r := c.Check(t.Context(), h)
			report.Results = append(report.Results, r)
			for _, f := range r.Failures {
				t.Error(f)
			}
			if r.Skipped != "" {
				t.Skip(r.Skipped)
			}
		})
	}
	t.Log(report)
}

// Check runs all cases without a testing.T, so that a guard can be proved where
// it is deployed: give it a value that is not in use. The error joins all
// failures, and the context's error if that ended the check early; the report
// is never nil.
func Check(ctx context.Context, h *Harness) (*Report, error) {
	report := &Report{Name: h.Name}
	for _, c := range Cases() {
		if ctx.Err() != nil {
			return report, errors.Join(report.Err(), fmt.Errorf("fencetest: stopped before %s: %w", c.Name, context.Cause(ctx)))
		}
		report.Results = append(report.Results, c.Check(ctx, h))
	}
	return report, report.Err()
}

// Refuses runs one case, by its name, against a guard that is wrong on purpose,
// and fails unless the case finds it out. Its patience is ten seconds at least:
// on a busy machine a stopped holder that went on sooner would meet no other holder.
func Refuses(t *testing.T, h *Harness, name string) {
	t.Helper()
	patient := *h
	patient.Patience = max(h.Patience, refusesPatience)
	h = &patient
	for _, c := range Cases() {
		if c.Name != name {
			continue
		}
		r := c.Check(t.Context(), h)
		if len(r.Failures) == 0 {
			t.Errorf("fencetest: PASSED %s: %s lets it pass %s", h.Name, name, r.Skipped)
			return
		}
		t.Logf("fencetest: refused %s: %v", h.Name, r.Failures[0])
		return
	}
	t.Errorf("fencetest: PASSED %s: there is no case %q", h.Name, name)
}
