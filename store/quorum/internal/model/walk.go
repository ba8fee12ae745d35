// SPDX-License-Identifier: Apache-2.0

package model

import "math/rand/v2"

// Wide is a world too large to be searched whole, for walks: five nodes, three
// acquisitions, records that vanish, an attempt that is executed twice, nodes that
// lose their data, releases that travel, and a join with a renewal.
var Wide = Scene{Name: "wide", Nodes: 5, Attempts: 3, Counters: 2, Vanish: true, Dup: true, Losses: 2, Renew: true, Bound: true}

// Loose are the rules of the walks: all that token order needs. Without quarantine
// a node that lost its data votes again at once, which makes it harder.
var Loose = All(5)

// Walks are random schedules.
type Walks struct {
	m *search
	r *rand.Rand
	// Schedules counts them, Grants what was granted in them, Several those with
	// more than one grant, Losses how often a node lost its data.
	Schedules, Grants, Several, Losses int
	starts                             []state
}

// NewWalks prepares random schedules of a scene under some rules.
func NewWalks(scene Scene, rules Rules, seed uint64) *Walks {
	w := &Walks{m: &search{Scene: scene, Rules: rules}, r: rand.New(rand.NewPCG(seed, 42))}
	w.starts = w.m.starts()
	return w
}

// Walk runs one schedule to its end: whatever can happen next does, at random.
func (w *Walks) Walk() Result {
	m := w.m
	s := w.starts[w.r.IntN(len(w.starts))]
	var taken []action
	for range 200 {
		m.queue, m.acts = m.queue[:0], m.acts[:0]
		m.expand(s)
		if m.found != "" {
			taken = append(taken, m.last)
			break
		}
		if len(m.queue) == 0 {
			break
		}
		i := w.choose()
		s = m.queue[i]
		taken = append(taken, m.acts[i])
	}
	w.Schedules++
	w.Losses += int(s.losses)
	grants := 0
	for i := range m.attempts() {
		if s.att[i].token > 0 {
			grants++
		}
	}
	if w.Grants += grants; grants > 1 {
		w.Several++
	}
	r := Result{Violation: m.found}
	if m.found != "" {
		for _, a := range taken {
			r.Steps = append(r.Steps, a.String())
		}
		m.found = ""
	}
	return r
}

// choose picks a step; faults happen less often than the rest, or
// nothing would ever be granted.
func (w *Walks) choose() int {
	i := w.r.IntN(len(w.m.acts))
	for try := 0; try < 3 && w.m.acts[i].who == none; try++ {
		rare := 4
		if w.m.acts[i].verb == "loses its data" {
			rare = 20
		}
		if w.r.IntN(rare) == 0 {
			break
		}
		i = w.r.IntN(len(w.m.acts))
	}
	return i
}
