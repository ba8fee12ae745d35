// SPDX-License-Identifier: Apache-2.0

package redismodel

import (
	"flag"
	"testing"
)

// quick is how many states this test sees of each scene with all rules on. make
// model-redis sees more.
var quick = flag.Int("states", 60_000, "how many states of a scene with all rules to see")

// redundant are rules without which nothing is found: the marker, the run id and the
// trusted deadline cover what the session in the reply of the transaction shows.
var redundant = map[Rule]bool{Session: true}

// TestRulesAreEnoughAndNeeded asserts both directions.
func TestRulesAreEnoughAndNeeded(t *testing.T) {
	shown := map[Rule]bool{}
	Check(Scenes, *quick, func(f Finding) {
		shown[f.Off] = true
		switch {
		case f.Off == 0 && !f.Good():
			t.Errorf("%s: with all rules on: %s: %q", f.Scene, f.Violation, f.Steps)
		case !f.Good():
			t.Errorf("%s: without rule %v nothing was found in %d states", f.Scene, f.Off, f.States)
		}
	})
	for off := Rule(1); off < rules; off++ {
		if shown[off] == redundant[off] {
			t.Errorf("rule %v: shown to be needed %v, redundant %v", off, shown[off], redundant[off])
		}
	}
}

// TestRedundantRule: nothing is found without a redundant rule.
func TestRedundantRule(t *testing.T) {
	for _, s := range Scenes {
		for off := range redundant {
			if r := Search(s, All(off), *quick/4); r.Violation != "" {
				t.Errorf("%s: without rule %v: %s: %q", s.Name, off, r.Violation, r.Steps)
			}
		}
	}
}

// TestCounterexampleIsAHistory: what a search prints can be read from the start to the
// violation.
func TestCounterexampleIsAHistory(t *testing.T) {
	r := Search(Scenes[0], All(KnownTicket), Limit)
	if len(r.Steps) != 12 || r.Steps[0] != "c0.0 sends fast" || r.Steps[11] != "c1.0 takes the reply granted" {
		t.Errorf("got %s by %q, want the twelve steps in which two grants have token 4", r.Violation, r.Steps)
	}
}

// TestStatesArePacked: a state that was packed is the same when it is unpacked.
func TestStatesArePacked(t *testing.T) {
	m := &search{Scene: Scenes[0], rules: All()}
	s := m.first()
	s.srv.push(elem{kind: isTicket, ticket: 4})
	s.copy, s.copied = s.srv, 1
	s.cl[0].claims[0] = claim{st: asking, phase: sent, out: msg{kind: mFast, generation: 1}}
	s.send(msg{kind: mWake})
	s.send(msg{kind: mAttempt, who: 1})
	var c coder
	c.state(&s)
	var got state
	c = coder{buf: c.buf, read: true}
	if c.state(&got); got != s {
		t.Errorf("got %+v, want %+v", got, s)
	}
}
