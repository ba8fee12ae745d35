// SPDX-License-Identifier: Apache-2.0

package model

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

var record = flag.Bool("model.record", false, "search the counterexamples of the slow rules and write them to testdata; minutes")

// counterexamples has, for each slow rule, the steps that lead to a violation without it: a line
// with the rule, then a line for each step.
const counterexamples = "testdata/counterexamples.txt"

// TestCounterexamplesOfSlowRules: each rule that takes long to search is needed. The steps that were
// found without it still lead to a violation, and to none with all rules.
func TestCounterexamplesOfSlowRules(t *testing.T) {
	if *record {
		recordCounterexamples(t)
	}
	text, err := os.ReadFile(counterexamples)
	must.OK(t, err)
	recorded := map[string][]string{}
	for _, part := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		lines := strings.Split(part, "\n")
		recorded[lines[0]] = lines[1:]
	}
	for _, s := range Scenes {
		for _, off := range s.Shows {
			if !slow[off] {
				continue
			}
			steps := recorded[fmt.Sprint("R", off)]
			if len(steps) == 0 || replay(s, All(off), steps) == "" {
				t.Errorf("%s: the %d recorded steps show no violation without R%d; if the model was changed, record others with -model.record", s.Name, len(steps), off)
				continue
			}
			if violation := replay(s, All(), steps); violation != "" {
				t.Errorf("%s: with all rules: %s: %q", s.Name, violation, steps)
			}
		}
	}
}

func recordCounterexamples(t *testing.T) {
	var parts []string
	for _, s := range Scenes {
		for _, off := range s.Shows {
			if slow[off] {
				parts = append(parts, strings.Join(slices.Insert(Search(s, All(off), Limit).Steps, 0, fmt.Sprint("R", off)), "\n"))
			}
		}
	}
	must.OK(t, os.WriteFile(counterexamples, []byte(strings.Join(parts, "\n\n")+"\n"), 0o644))
}

// replay follows the steps of a counterexample, without a search, and returns the violation they
// lead to, or nothing if they lead to none or cannot be taken under these rules.
func replay(scene Scene, rules Rules, steps []string) string {
	m := &search{Scene: scene, Rules: rules}
	at := m.starts()
	for _, step := range append(steps[:len(steps):len(steps)], "") { // the last only looks at what is left behind
		next := map[state]struct{}{} // one step may have several outcomes
		for _, s := range at {
			m.queue, m.acts = m.queue[:0], m.acts[:0]
			if m.expand(s); m.found != "" {
				return m.found
			}
			for i, a := range m.acts {
				if a.String() == step {
					next[m.queue[i]] = struct{}{}
				}
			}
		}
		at = at[:0:0]
		for s := range next {
			at = append(at, s)
		}
	}
	return ""
}
