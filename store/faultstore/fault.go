// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Fault is which calls are bent and how. It is a value without state, made
// by Parse or by the functions of this package that are named like the words
// of the language; counting happens in the Store, so one Fault can bend many
// stores. Two faults are equal if they print the same, and then
// reflect.DeepEqual says so too.
type Fault interface {
	// String returns the fault as an expression that Parse reads back.
	String() string

	// valid looks at the arguments of this node only, so that the parser can
	// say where the bad one stands.
	valid() error
	// check looks at the whole tree: arguments, hooks, and whether every
	// effect can strike at all.
	check(in scope) error
	// compile returns a fresh matcher, with new counters.
	compile() matcher
}

// matcher adds to the plan what strikes the call. The store calls it for one
// call at a time.
type matcher func(c *call, p *plan)

// scope is what is known about the calls that get to a place in a tree.
type scope struct {
	ops  []Op
	opts *Options
}

// None returns the fault that strikes nothing.
func None() Fault { return none{} }

type none struct{}

func (none) String() string    { return "none" }
func (none) valid() error      { return nil }
func (none) check(scope) error { return nil }
func (none) compile() matcher  { return func(*call, *plan) {} }

// Any returns the fault that strikes as all of its parts together do.
func Any(parts ...Fault) Fault {
	all := make(anyOf, len(parts))
	for i, f := range parts {
		all[i] = orNone(f)
	}
	switch len(all) {
	case 0:
		return None()
	case 1:
		return all[0]
	}
	return all
}

type anyOf []Fault

func (a anyOf) String() string {
	parts := make([]string, len(a))
	for i, f := range a {
		parts[i] = f.String()
	}
	return "any(" + strings.Join(parts, ", ") + ")"
}

func (a anyOf) valid() error { return nil }

func (a anyOf) check(in scope) error {
	for _, f := range a {
		if err := f.check(in); err != nil {
			return err
		}
	}
	return nil
}

func (a anyOf) compile() matcher {
	parts := make([]matcher, len(a))
	for i, f := range a {
		parts[i] = f.compile()
	}
	return func(c *call, p *plan) {
		// All parts, also after one struck: see the package comment.
		for _, match := range parts {
			match(c, p)
		}
	}
}

// when is a fault under a condition.
type when struct {
	cond cond
	then Fault
}

func (w when) String() string { return fmt.Sprintf("%s, %s)", w.cond.head(), w.then) }
func (w when) valid() error   { return w.cond.valid() }

func (w when) check(in scope) error {
	if err := w.valid(); err != nil {
		return fmt.Errorf("in %s: %w", w, err)
	}
	narrowed := w.cond.narrow(in.ops)
	if len(narrowed) == 0 {
		return fmt.Errorf("%s can never strike: it only sees %s", w, wordList(in.ops))
	}
	return w.then.check(scope{narrowed, in.opts})
}

func (w when) compile() matcher {
	holds, then := w.cond.fresh(), w.then.compile()
	return func(c *call, p *plan) {
		if holds(c) {
			then(c, p)
		}
	}
}

// orNone spares callers who build faults in code the nil check.
func orNone(f Fault) Fault {
	if f == nil {
		return None()
	}
	return f
}

// wordList joins words for an error text.
func wordList[W ~string](words []W) string {
	parts := make([]string, len(words))
	for i, w := range words {
		parts[i] = string(w)
	}
	return strings.Join(parts, ", ")
}

// Kind is a kind of effect, named as in the language.
type Kind string

// The kinds of effects that are counted.
const (
	LostRequest Kind = "lose(request)"
	LostReply   Kind = "lose(reply)"
	Delayed     Kind = "delay"
	Duplicated  Kind = "dup"
	Refused     Kind = "refuse"
	Failed      Kind = "fail"
	LostAll     Kind = "reset(all)"
	LostSome    Kind = "reset(some)"
	Stepped     Kind = "step"
	// Paused counts every call that a pause held up.
	Paused Kind = "pause"
	// CutOff counts every request and every reply that a cut swallowed.
	CutOff Kind = "cut"
	// Late counts calls that landed after their callers had gone. It is the
	// consequence of a delay or a pause and no word of the language.
	Late Kind = "late"
)

// Injected returns how many calls each kind of effect has struck so far. It
// counts what happened and not what was asked for, so that a test can assert
// that its fault really came about.
func (s *Store) Injected() map[Kind]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// strike counts an effect, once per call.
func (s *Store) strike(p *plan, k Kind) {
	if slices.Contains(p.struck, k) {
		return
	}
	p.struck = append(p.struck, k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[k]++
}
