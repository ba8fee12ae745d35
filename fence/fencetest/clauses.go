// SPDX-License-Identifier: Apache-2.0

package fencetest

// Clause is one numbered sentence under "Guard clauses" in docs/spec.md.
type Clause struct {
	// ID is G and a number.
	ID string
	// Rule is the sentence, word for word.
	Rule string
}

var clauses = []Clause{
	{"G1", "A token that is not older than the newest seen is admitted: the first, the same again, a newer one."},
	{"G2", "An older token is refused with ErrStale, at entry and at a write, and changes neither the value nor the fence."},
	{"G3", "Entering raises the fence before it reads: no older token changes what was read."},
	{"G4", "The check and what it admits are one step: a pause in between lets no older token in."},
	{"G5", "A token of another lock is refused with ErrWrongLock, and a call without a token with ErrNoToken; neither raises the fence."},
	{"G6", "Tokens are compared as numbers and keep all their bits up to 2^63-1."},
	{"G7", "A lost reply is reported neither as success nor as a refusal, and the same token may try again."},
	{"G8", "A refusal names the refused token. If it names a newer token or a holder, these are the true ones."},
	{"G9", "The fence lasts as long as the value: after a restart that keeps the value an older token is still refused."},
	{"G10", "The fence is shared like the value: what one process has admitted makes an older token stale for every other process."},
}

// Clauses returns the guard clauses in the order of docs/spec.md.
func Clauses() []Clause { return append([]Clause(nil), clauses...) }

// Case is one test of one clause.
type Case struct {
	// Clause is the clause that a failure of this case violates.
	Clause Clause
	// Name is the clause and a short name: "G2/delayed-writer".
	Name string

	needs func(*Harness) string
	body  func(*scene)
}

// spec is how the files of this package write a case down.
type spec struct {
	clause, name string
	needs        func(*Harness) string // why it cannot be run, or ""
	body         func(*scene)
}

// Cases returns all cases in the order of docs/spec.md.
func Cases() []Case {
	var all []Case
	for _, c := range clauses {
		for _, group := range [][]spec{orderCases, stepCases, markCases, nameCases, unknownCases, processCases} {
			for _, s := range group {
				if s.clause == c.ID {
					all = append(all, Case{Clause: c, Name: s.clause + "/" + s.name, needs: s.needs, body: s.body})
				}
			}
		}
	}
	return all
}

func nothing(*Harness) string { return "" }

func restart(h *Harness) string {
	if h.Restart == nil {
		return "needs Harness.Restart"
	}
	return ""
}
