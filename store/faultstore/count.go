// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"maps"
	"slices"
)

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
