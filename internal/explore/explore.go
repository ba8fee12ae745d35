// SPDX-License-Identifier: Apache-2.0

// Package explore searches models: it tries everything that can happen, the shortest histories first.
package explore

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
)

// Result is what a search found.
type Result struct {
	// States is how many different states were seen.
	States int
	// Violation is what is wrong, empty if nothing is.
	Violation string
	// Steps lead there, the shortest way.
	Steps []string
}

// Finding is the outcome of one search: of a scene with all rules, or with all but one.
type Finding[Rule comparable] struct {
	Result
	Scene string
	Off   Rule // zero: all rules are on
}

// Good reports whether it is as it should be: nothing with all rules, a violation with one off.
func (f Finding[Rule]) Good() bool {
	var none Rule
	return (f.Off != none) == (f.Violation != "")
}

// Step leads from one state to another. It costs nothing until it is printed. Its zero value is no step.
type Step interface {
	comparable
	fmt.Stringer
}

// Search is one breadth-first search through the states of a model. Expand reaches everything that one step leads to.
// States are remembered by a 64-bit hash: a wrong match among ten million has a chance of one in 300,000, among a
// hundred million of one in 3,000.
type Search[State comparable, By Step] struct {
	Expand func(s *State)
	// Pack appends a state to bytes and Unpack reads it from them, if the states that are not expanded yet take too
	// much memory as they are.
	Pack   func(s *State, to []byte) []byte
	Unpack func(s *State, from []byte)

	seed maphash.Seed
	seen map[uint64]struct{}
	// parent and by are how each state was reached first, by the number of the state.
	parent []uint32
	by     []By
	next   level[State]
	spare  State
	cur    uint32 // the state being expanded
	found  string
	last   By // led from that state to the violation
}

// start is the parent of the states that a search starts from.
const start = math.MaxUint32

// Run searches from some states until it finds a violation or has seen all, or limit states.
func (e *Search[State, By]) Run(starts []State, limit int) Result {
	e.seed, e.seen, e.cur = maphash.MakeSeed(), map[uint64]struct{}{}, start
	var none By
	for i := range starts {
		e.Reach(&starts[i], none)
	}
	for e.cur = 0; e.found == "" && !e.next.empty() && len(e.seen) < limit; {
		now := e.next
		e.next = level[State]{}
		now.each(e.Unpack, func(s *State) bool {
			e.Expand(s)
			e.cur++
			return e.found == "" && len(e.seen) < limit
		})
	}
	r := Result{States: len(e.seen), Violation: e.found}
	if e.found != "" {
		r.Steps = e.way()
	}
	return r
}

// Reach notes a state that a step leads to from the one being expanded.
func (e *Search[State, By]) Reach(s *State, by By) {
	h := maphash.Comparable(e.seed, *s)
	if _, is := e.seen[h]; is {
		return
	}
	e.seen[h] = struct{}{}
	e.parent, e.by = append(e.parent, e.cur), append(e.by, by)
	e.spare = *s // so that s need not be on the heap
	e.next.add(&e.spare, e.Pack)
}

// Wrong notes a violation, the first one: in the state that a step leads to from the one being expanded, or in that
// one if there is no step.
func (e *Search[State, By]) Wrong(by By, what string) {
	if e.found == "" {
		e.found, e.last = what, by
	}
}

// way returns the steps to the violation.
func (e *Search[State, By]) way() (steps []string) {
	var none By
	if e.last != none {
		steps = append(steps, e.last.String())
	}
	for n := e.cur - 1; e.parent[n] != start; n = e.parent[n] { // it was the last one to be expanded
		steps = append(steps, e.by[n].String())
	}
	slices.Reverse(steps)
	return steps
}

// level is all states that are reached with the same number of steps, in the order of their numbers.
type level[State any] struct {
	plain []State
	// packed are states behind their lengths, in pieces.
	packed [][]byte
}

func (l *level[State]) empty() bool { return len(l.plain) == 0 && len(l.packed) == 0 }

func (l *level[State]) add(s *State, pack func(*State, []byte) []byte) {
	if pack == nil {
		l.plain = append(l.plain, *s)
		return
	}
	const size, room = 1 << 22, 1 << 11 // of a piece, and for a state
	if k := len(l.packed); k == 0 || len(l.packed[k-1])+room > size {
		l.packed = append(l.packed, make([]byte, 0, size))
	}
	piece := &l.packed[len(l.packed)-1]
	at := len(*piece)
	*piece = pack(s, append(*piece, 0, 0))
	n := len(*piece) - at - 2
	(*piece)[at], (*piece)[at+1] = byte(n), byte(n>>8)
}

// each visits the states in order while visit returns true.
func (l *level[State]) each(unpack func(*State, []byte), visit func(s *State) bool) {
	for i := range l.plain {
		if !visit(&l.plain[i]) {
			return
		}
	}
	var s, zero State
	for i, piece := range l.packed {
		l.packed[i] = nil // it can be freed before the level is done
		for at := 0; at < len(piece); {
			n := int(piece[at]) | int(piece[at+1])<<8
			s = zero
			unpack(&s, piece[at+2:at+2+n])
			at += 2 + n
			if !visit(&s) {
				return
			}
		}
	}
}
