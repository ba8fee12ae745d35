// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// selection is which figures to measure: those whose names begin with one of these. An
// empty selection is all of them.
type selection []string

// parseSelection reads beginnings of names, with commas between them.
func parseSelection(text string) selection {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

// wants reports whether a figure is selected.
func (s selection) wants(name string) bool {
	return len(s) == 0 || slices.ContainsFunc(s, func(beginning string) bool { return strings.HasPrefix(name, beginning) })
}

// of returns the questions that give a selected figure. A beginning that no figure has is
// an error: it is a typing error, and would measure nothing.
func (s selection) of(questions []question) ([]question, error) {
	var known []string
	for _, q := range questions {
		known = append(known, q.gives...)
	}
	for _, beginning := range s {
		if !slices.ContainsFunc(known, selection{beginning}.wants) {
			return nil, fmt.Errorf("-only: the name of no figure begins with %q; there are %s", beginning, strings.Join(known, ", "))
		}
	}
	return s.among(questions), nil
}

// among returns the questions that give or feed a selected figure, or no question.
func (s selection) among(questions []question) []question {
	return slices.DeleteFunc(slices.Clone(questions), func(q question) bool {
		return !slices.ContainsFunc(q.gives, s.wants) && (q.feeds == "" || !s.wants(q.feeds))
	})
}

// whole is a set of figures that are only measured together.
func whole(set func(context.Context, *suite.Env) error) func(context.Context, *suite.Env, selection) error {
	return func(ctx context.Context, e *suite.Env, only selection) error {
		if len(only) > 0 {
			return errors.New("-only does not select among these figures: they are measured together")
		}
		return set(ctx, e)
	}
}
