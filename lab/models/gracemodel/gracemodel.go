// SPDX-License-Identifier: Apache-2.0

// Package gracemodel searches every history of a small fleet whose server loses data while
// grace is being switched on, and says which rules keep two processes from holding one lock.
//
// A server keeps a marker: is there grace, the highest max_ttl that a process has declared,
// and when the incarnation began. A data loss takes the marker away, or brings back an older
// one.
//
//	process A, no grace ──┐                     ┌── marker: no grace
//	process B, grace    ──┴─ opens ──▶ server ──┤   marker: grace, max_ttl 4 ◀── B was here
//	                                            └── a replica has the marker of any time before
//
// What is promised:
//
//	A grant in a namespace with grace never overlaps with another lease. It does not matter
//	which process began the incarnation, nor what that process asks for.
//	No lost grant is put back after a newer one.
//
// What nobody can decide is left out: the server lost the marker, or has an older one, and the first process to come
// has neither asked for grace nor ever seen it, or knows of no max_ttl as high as the TTL of a holder. What is granted
// until a process comes that knows more may overlap. The fields named facts say what could be known.
//
// Each rule has a switch. With all rules on the search finds nothing, with one off it must
// find a violation.
//
// The rule Declared is why a grace period is as long as max_ttl, which processes declare, and not as
// the longest TTL that a session really has. The server could remember the latter, but a raise can be lost with
// the last writes, and nobody else knows it. A process knows what it declares.
//
// Not modeled: clocks that differ, and the protocol of a grant (package redismodel of redisstore).
package gracemodel

// Rule is a rule that can be switched off.
type Rule int

// The rules.
const (
	// Property: a process that does not ask for grace obeys the marker.
	Property Rule = iota + 1
	// Remembered: a process that has seen grace in the marker asks for it from then on.
	Remembered
	// Rest: where grace is switched on, or max_ttl raised, in a young incarnation, the rest of the grace period counts.
	Rest
	// Highest: the marker keeps the highest max_ttl that was declared.
	Highest
	// Known: a process that has seen a higher max_ttl declares it from then on.
	Known
	// Declared: the grace period is as long as max_ttl, not as the longest TTL of a session.
	Declared
	// Margin: max_ttl is longer than a TTL by as long as a replaced server keeps sessions alive.
	Margin
	// Newest: a lost grant is not put back if another one was made since the incarnation began.
	Newest
	// Outdated: nor in a later incarnation, if the one that granted had less grace than is known by then.
	Outdated
	rules
)

var names = [rules]string{Property: "property", Remembered: "remembered", Rest: "rest", Highest: "highest", Known: "known", Declared: "declared", Margin: "margin", Newest: "newest", Outdated: "outdated"}

// String returns the name of the rule.
func (r Rule) String() string { return names[r] }

// Process is what a process is started with.
type Process struct {
	TTL, Max uint8
	Asks     bool
	// Later is set for a process that is not running at first.
	Later bool
}

// Scene is a small world.
type Scene struct {
	Name      string
	Processes []Process
	Ticks     uint8
	// Losses is how often data is lost: everything (Flush), or what a replica has not copied
	// (Failover).
	Losses          uint8
	Flush, Failover bool
	// Serves is for how long a server that was replaced keeps sessions alive.
	Serves uint8
	Shows  []Rule
}

const most = 3

// marker is what a server keeps of the namespace; all zero if it keeps nothing.
type marker struct {
	inc, began, over  uint8
	first             uint8 // end of the grace period with which the incarnation began
	grace             bool
	max, longest      uint8
	facts             facts
	holder, holderInc uint8      // number of the process plus 1
	granted           bool       // in this incarnation
	last, outdated    uint8      // the latest incarnation that granted; grants of those before this one are not put back
	newer             [most]bool // another grant was made while the process held a lost one
	ends              [most]uint8
}

// facts are what a process or a server could know of the settings, whatever the rules make of it.
type facts struct {
	grace bool
	max   uint8
}

func (f facts) and(g facts) facts { return facts{f.grace || g.grace, max(f.max, g.max)} }

type process struct {
	running, grace bool // grace: it asks for grace, or has seen it
	max            uint8
	facts          facts
	inc, until     uint8 // of its session; until is its trusted deadline
	holds          bool
	got            uint8 // incarnation of its grant
}

type state struct {
	now, incs, losses uint8
	srv, copied, old  marker
	hasCopy           bool
	oldUntil          uint8
	procs             [most]process
}

// search is one breadth-first search.
type search struct {
	Scene
	off    Rule
	seen   map[state]bool
	states []state
	parent []int
	act    []string
	cur    int
	found  string
	done   bool // the step that leads to what was found is noted
}

// Result is what a search found: a violation and the steps to it, or nothing in so many states.
type Result struct {
	States    int
	Violation string
	Steps     []string
}

// Search tries everything that can happen in a scene without one rule; 0 is with all rules.
func Search(s Scene, off Rule) Result {
	m := &search{Scene: s, off: off, seen: map[state]bool{}}
	var first state
	first.now = 1
	for i, p := range s.Processes {
		first.procs[i] = process{running: !p.Later, grace: p.Asks, max: p.Max, facts: facts{p.Asks, p.Max}}
	}
	m.reach(first, "")
	for m.cur = 0; m.cur < len(m.states) && m.found == ""; m.cur++ {
		m.expand(m.states[m.cur])
	}
	r := Result{States: len(m.states), Violation: m.found}
	if m.found != "" {
		for n := len(m.states) - 1; n > 0; n = m.parent[n] {
			r.Steps = append([]string{m.act[n]}, r.Steps...)
		}
	}
	return r
}

func (m *search) on(r Rule) bool { return m.off != r }

// reach notes a state that can be reached.
func (m *search) reach(s state, act string) {
	if m.seen[s] || m.done {
		return
	}
	m.seen[s] = true
	m.states, m.parent, m.act = append(m.states, s), append(m.parent, m.cur), append(m.act, act)
	m.done = m.found != ""
}
