// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"slices"
	"sync/atomic"

	"github.com/fencelock/fencelock/driver"
)

var ownershipCases = []spec{
	{"O1", "excludes", nil, o1Excludes},
	{"O1", "excludes its own session", nil, o1ExcludesOwnSession},
	{"O1", "excludes shared claims", all(limits), o1ExcludesShared},
	{"O1", "many at once", nil, o1ManyAtOnce},
	{"O2", "same token again", nil, o2SameToken},
	{"O2", "keeps its place", all(queue), o2KeepsPlace},
	{"O2", "at once", nil, o2AtOnce},
	{"O3", "another session's stays", nil, o3AnotherSession},
	{"O3", "another number's stays", nil, o3AnotherNumber},
	{"O3", "another name's stays", nil, o3AnotherName},
	{"O3", "queued", all(queue), o3Queued},
	{"O4", "returns what it found", nil, o4ReturnsWhatItFound},
	{"O4", "queued", all(queue), o4Queued},
}

func o1Excludes(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name)
	b := t.openElsewhere(name)
	for range 3 {
		out := b.want(name).busy()
		if n := len(out.Holders); n > driver.MaxHoldersReported {
			t.errorf("a busy answer has %d holders, want at most %d", n, driver.MaxHoldersReported)
		}
		for _, h := range out.Holders {
			if h.Claim != a.id() || h.Token != a.token {
				t.errorf("a busy answer has holder %v with token %v, want %v with %v", h.Claim, h.Token, a.id(), a.token)
			}
		}
	}
	t.mustHold(name, a)
}

func o1ExcludesOwnSession(t *scene) {
	// A lock does not belong to a session but to one of its claims.
	name := t.name("lock")
	s := t.open(name)
	a := s.grant(name)
	s.want(name).busy()
	a.withdraw()
	s.grant(name)
}

func o1ExcludesShared(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name)
	b := t.open(name)
	b.want(name, shared).busy()
	b.want(name, share(1, 10)).busy()
	a.withdraw()
	b.grant(name, shared)
}

// o1ManyAtOnce also watches T1: the tokens are noted inside the lock, so their
// order is the order of the grants.
func o1ManyAtOnce(t *scene) {
	const processes, rounds = 8, 40
	name := t.name("lock")
	stores := []driver.Store{t.store, t.other()}
	var sessions []*session
	for i := range processes {
		sessions = append(sessions, t.openOn(stores[i%2], name, t.long))
	}
	var inside atomic.Int32
	var tokens []driver.Token // written under the lock being tested, so -race sees a second holder too
	t.together(processes, func(i int) {
		for range rounds {
			w := sessions[i].want(name)
			out := w.attempt()
			if out.State != driver.Granted {
				continue
			}
			if n := inside.Add(1); n != 1 {
				t.fatalf("%d exclusive claims are granted at once", n)
			}
			tokens = append(tokens, out.Token)
			inside.Add(-1)
			w.withdraw()
		}
	})
	if len(tokens) == 0 {
		t.fatalf("none of %d attempts was granted", processes*rounds)
	}
	if t.caps.Fencing != driver.NoFencing && !slices.IsSortedFunc(tokens, compareTokens) {
		t.fatalf("tokens in the order of grants do not strictly rise: %v", tokens)
	}
	t.mustBeFree(name)
}

// compareTokens regards equal tokens as out of order.
func compareTokens(a, b driver.Token) int {
	if a < b {
		return -1
	}
	return 1
}

func o2SameToken(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	token := w.token
	for range 3 {
		if w.granted(); w.token != token {
			t.fatalf("the same claim got token %v, want %v again", w.token, token)
		}
	}
	// However often it was attempted, one withdrawal removes it.
	w.mustFind(driver.WasGranted)
	t.mustBeFree(name)
}

func o2KeepsPlace(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	a, b := t.open(name).queue(name), t.open(name).queue(name)
	for range 3 {
		a.queuedAt(0)
		b.queuedAt(1)
	}
	if st := t.inspect(name); st.Waiting != 2 {
		t.fatalf("got %d claims in the queue after repeated attempts, want 2", st.Waiting)
	}
	holder.withdraw()
	a.granted()
	b.queuedAt(0)
}

func o2AtOnce(t *scene) {
	// A repeated attempt may overtake the one it repeats.
	name := t.name("lock")
	s := t.open(name)
	again := s.resumeOn(t.other())
	w := s.want(name)
	var tokens [8]driver.Token
	t.together(len(tokens), func(i int) {
		tokens[i] = w.on([]*session{s, again}[i%2]).granted().Token
	})
	for _, token := range tokens {
		if token != tokens[0] {
			t.fatalf("attempts of one claim at once got tokens %v, want equal ones", tokens)
		}
	}
	w.mustFind(driver.WasGranted)
	t.mustBeFree(name)
}

func o3AnotherSession(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name)
	b := t.open(name).want(name) // the same number as a's
	b.mustFind(driver.WasAbsent)
	t.mustHold(name, a)
	a.withdraw()
	b.granted()
	a.mustFind(driver.WasAbsent) // a repeated withdrawal arrives late
	t.mustHold(name, b)
}

func o3AnotherNumber(t *scene) {
	name := t.name("lock")
	s := t.open(name)
	old := s.grant(name)
	old.withdraw()
	w := s.grant(name)
	old.mustFind(driver.WasAbsent)
	s.want(name).mustFind(driver.WasAbsent)
	t.mustHold(name, w)
}

func o3AnotherName(t *scene) {
	names := t.neighbors(2)
	s := t.open(names[0])
	a := s.grant(names[0])
	b := s.grant(names[1])
	a.mustFind(driver.WasGranted)
	t.mustHold(names[1], b)
	t.mustBeFree(names[0])
}

func o3Queued(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	s := t.open(name)
	first, second := s.queue(name), s.queue(name)
	third := t.open(name).queue(name)
	t.open(name).want(name).mustFind(driver.WasAbsent)
	second.mustFind(driver.WasQueued)
	t.mustHold(name, holder)
	first.queuedAt(0)
	third.queuedAt(1)
}

func o4ReturnsWhatItFound(t *scene) {
	name := t.name("lock")
	s := t.open(name)
	w := s.want(name)
	w.mustFind(driver.WasAbsent)
	w = s.grant(name)
	w.mustFind(driver.WasGranted)
	w.mustFind(driver.WasAbsent)
	w.mustFind(driver.WasAbsent)
	t.open(name).grant(name)
}

func o4Queued(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	w := t.open(name).queue(name)
	w.mustFind(driver.WasQueued)
	w.mustFind(driver.WasAbsent)
	t.mustHold(name, holder)
	holder.mustFind(driver.WasGranted)
	t.mustBeFree(name)
}
