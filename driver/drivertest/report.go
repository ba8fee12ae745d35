// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Result is what came of one case.
type Result struct {
	// Case is the case that was run or skipped.
	Case Case
	// Server is the name of the server, from Caps.Engine.
	Server string
	// Skipped is why the case was not run, or empty.
	Skipped string
	// Failures are the violations found, none if the case passed.
	Failures []*Failure

	// behind is how much longer the case took than the time it let pass, slack how much
	// it may.
	behind, slack time.Duration
}

// Failure is one violation of a clause. It is an error.
type Failure struct {
	// Clause is the violated clause with its rule.
	Clause Clause
	// Case is the name of the case: "S3/expires".
	Case string
	// Source is where the case is written down and Line is the line of it that
	// failed, both as "file.go:12". Line may name a helper after that, and is
	// empty if the case could not start.
	Source, Line string
	// Text is what was expected and what was found.
	Text string
}

// Error returns the case, the rule, where it is written down and the text.
func (f *Failure) Error() string {
	where := "case " + f.Source
	if f.Line != "" {
		where += ", failed at " + f.Line
	}
	return fmt.Sprintf("%s: violated: %s\n\t%s\n\t%s", f.Case, f.Clause.Rule, where, f.Text)
}

func (c Case) failure(line, text string) *Failure {
	return &Failure{Clause: c.Clause, Case: c.Name, Source: c.Source(), Line: line, Text: text}
}

// Report is what came of all cases.
type Report struct {
	// Server is the name of the server, from Caps.Engine.
	Server string
	// Results are in the order of Cases.
	Results []Result
}

func (r *Report) add(res Result) {
	r.Server = or(r.Server, res.Server)
	r.Results = append(r.Results, res)
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

// Err joins all failures, each a *Failure. It is nil if there are no failures.
func (r *Report) Err() error {
	var errs []error
	for _, res := range r.Results {
		for _, f := range res.Failures {
			errs = append(errs, f)
		}
	}
	return errors.Join(errs...)
}

// String returns the counts, every failure and every skipped case with its
// reason.
func (r *Report) String() string {
	passed, failed, skipped := r.Counts()
	var b strings.Builder
	fmt.Fprintf(&b, "server %s: %d cases: %d passed, %d failed, %d skipped",
		or(r.Server, "unknown"), len(r.Results), passed, failed, skipped)
	for _, res := range r.Results {
		for _, f := range res.Failures {
			fmt.Fprintf(&b, "\n%s", f)
		}
	}
	for _, res := range r.Results {
		if res.Skipped != "" {
			fmt.Fprintf(&b, "\nskipped %s: %s", res.Case.Name, res.Skipped)
		}
	}
	return b.String()
}
