// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

func TestSelection(t *testing.T) {
	questions := []question{{figures: []query{{name: "fast-1"}, {name: "fast-2"}}}, {figures: []query{{name: "lean"}}}}
	for _, tt := range []struct {
		only, want string
		fails      bool
	}{
		{"", "fast-1 lean", false},
		{"fast", "fast-1", false},
		{"fast-2", "fast-1", false}, // the question gives both
		{"lean,fast-1", "fast-1 lean", false},
		{"slow", "", true},
		{"lean,slow", "", true},
	} {
		chosen, err := parseSelection(tt.only).of(questions)
		var got []string
		for _, q := range chosen {
			got = append(got, q.gives()[0])
		}
		if (err != nil) != tt.fails || strings.Join(got, " ") != tt.want {
			t.Errorf("-only %q: %v, %v", tt.only, got, err)
		}
	}
	if whole(coreFigures)(t.Context(), &suite.Env{}, selection{"lease"}) == nil {
		t.Error("-only was ignored for figures that are measured together")
	}
}

// TestGives: every figure that -only selects among can be selected, and none is given by two
// questions.
func TestGives(t *testing.T) {
	questions := append(slices.Clone(redisQuestions), redisHolding(nil))
	for _, o := range slices.Concat(redisLong(), linger(), etcd(), zk(), sqlAll()) {
		questions = append(questions, o.questions...)
	}
	var seen []string
	for _, q := range questions {
		if len(q.figures) == 0 {
			t.Errorf("a question about %q does not list its figures", q.part)
		}
		for _, f := range q.figures {
			if slices.Contains(seen, f.name) {
				t.Errorf("%s is given twice", f.name)
			}
			if (f.read == nil) != (q.count != nil) || (q.measure == nil) != (q.count != nil) {
				t.Errorf("%s is neither read from cells nor counted, or both", f.name)
			}
			seen = append(seen, f.name)
		}
	}
}
