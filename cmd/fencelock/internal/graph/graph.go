// SPDX-License-Identifier: Apache-2.0

// Package graph finds out who blocks whom.
//
//	lock A ── held by ──▶ process P ── waits for ──▶ lock B ── held by ──▶ ...
//
// A process is known by its owner, user@host:pid unless somebody chose another;
// two processes that chose the same look like one. A process under whose lock
// another one runs waits for what that one waits for.
//
// A process with several threads may wait for one lock and go on with another, so
// a cycle is a strong hint, not a proof.
package graph

import (
	"slices"
	"strings"
)

// Lock is a lock with the owners of its holders and of those in line.
type Lock struct {
	Name    string
	Holders []Party
	Waiters []Party
}

// Party is a process that holds or waits.
type Party struct {
	Owner string
	// Under is the owner under whose lock it runs, or empty.
	Under string
}

// Graph knows the locks of a store at one moment.
type Graph struct {
	locks map[string]*Lock
	waits map[string][]string // owner: locks it waits for, sorted
}

// New makes a graph.
func New(locks []Lock) *Graph {
	g := &Graph{locks: map[string]*Lock{}, waits: map[string][]string{}}
	under := map[string]string{}
	for i := range locks {
		l := &locks[i]
		g.locks[l.Name] = l
		for _, p := range append(slices.Clone(l.Holders), l.Waiters...) {
			if p.Under != "" && p.Under != p.Owner {
				under[p.Owner] = p.Under
			}
		}
	}
	for _, l := range g.locks {
		for _, p := range l.Waiters {
			// Bounded: somebody may have written a circle into the labels.
			for owner, n := p.Owner, 0; owner != "" && n < 100; owner, n = under[owner], n+1 {
				g.waits[owner] = append(g.waits[owner], l.Name)
			}
		}
	}
	for owner, names := range g.waits {
		slices.Sort(names)
		g.waits[owner] = slices.Compact(names)
	}
	return g
}

// Step is a lock and one holder of it.
type Step struct {
	Lock   string `json:"lock"`
	Holder string `json:"holder"`
}

// holders returns the owners that hold a lock, each once.
func (g *Graph) holders(name string) []string {
	l := g.locks[name]
	if l == nil {
		return nil
	}
	var owners []string
	for _, h := range l.Holders {
		if !slices.Contains(owners, h.Owner) {
			owners = append(owners, h.Owner)
		}
	}
	return owners
}

// Walk visits what blocks a lock: every holder, what it waits for, who holds that,
// and so on. visit is told the depth, the holder, what that holder waits for, and
// whether the step closes a circle; then it goes no further there.
func (g *Graph) Walk(name string, visit func(depth int, s Step, waits []string, circle bool)) {
	var walk func(name string, path []string)
	walk = func(name string, path []string) {
		for _, owner := range g.holders(name) {
			circle := slices.Contains(path, name)
			visit(len(path), Step{name, owner}, g.waits[owner], circle)
			if circle {
				continue
			}
			for _, next := range g.waits[owner] {
				walk(next, append(slices.Clone(path), name))
			}
		}
	}
	walk(name, nil)
}

// maxCycles bounds Cycles: whoever has more has seen enough.
const maxCycles = 20

// Cycles returns circles of locks, each held by a process that waits for the next.
// Each begins with the lock that comes first by name.
func (g *Graph) Cycles() [][]Step {
	var found [][]Step
	seen := map[string]bool{}
	var names []string
	for name := range g.locks {
		names = append(names, name)
	}
	slices.Sort(names)
	var walk func(start, name string, path []Step)
	walk = func(start, name string, path []Step) {
		if len(found) >= maxCycles {
			return
		}
		for _, owner := range g.holders(name) {
			step := append(slices.Clone(path), Step{name, owner})
			for _, next := range g.waits[owner] {
				switch {
				case next == start:
					if key := keyOf(step); !seen[key] {
						seen[key] = true
						found = append(found, step)
					}
				case next > start && !slices.ContainsFunc(step, func(s Step) bool { return s.Lock == next }):
					walk(start, next, step)
				}
			}
		}
	}
	for _, name := range names {
		walk(name, name, nil)
	}
	return found
}

func keyOf(cycle []Step) string {
	var b strings.Builder
	for _, s := range cycle {
		b.WriteString(s.Lock + "\x00" + s.Holder + "\x00")
	}
	return b.String()
}
