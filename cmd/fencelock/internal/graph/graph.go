// SPDX-License-Identifier: Apache-2.0

// Package graph finds out who blocks whom.
//
//	lock A ── held by ──▶ process P ── waits for ──▶ lock B ── held by ──▶ ...
//
// A process is known by its owner, user@host:pid unless --owner sets another;
// two processes that chose the same look like one. A process under whose lock
// another one runs waits for what that one waits for.
//
// A process with several threads may wait for one lock and go on with another, so
// a cycle is a strong hint, not a proof.
package graph

import (
	"maps"
	"slices"
	"strings"
)

// Lock is a lock with the owners of its holders and of its waiters.
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
	// before are the steps that lead to a lock: locks whose holder waits for it.
	before map[string][]Step
}

// maxWaits bounds the edges of a graph: a process that holds thousands of locks and waits for
// thousands has an edge for each pair. Waits beyond that are left out, the last by name.
const maxWaits = 100

// New makes a graph.
func New(locks []Lock) *Graph {
	g := &Graph{locks: map[string]*Lock{}, waits: map[string][]string{}, before: map[string][]Step{}}
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
			// Bounded: labels may contain a circle.
			for owner, n := p.Owner, 0; owner != "" && n < 100; owner, n = under[owner], n+1 {
				g.waits[owner] = append(g.waits[owner], l.Name)
			}
		}
	}
	for owner, names := range g.waits {
		slices.Sort(names)
		names = slices.Compact(names)
		g.waits[owner] = names[:min(len(names), maxWaits)]
	}
	for _, name := range slices.Sorted(maps.Keys(g.locks)) {
		for _, owner := range g.holders(name) {
			for _, next := range g.waits[owner] {
				g.before[next] = append(g.before[next], Step{name, owner})
			}
		}
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

// Seen is whether a walk has met a lock before.
type Seen int

// The ways to meet a lock.
const (
	First  Seen = iota
	Again       // it was met on another way, and is not followed again
	Circle      // it is what the walk came through: it closes a circle
)

// Walk visits what blocks a lock: every holder, what it waits for, who holds that,
// and so on. visit gets the depth, the holder, what that holder waits for, and
// whether the lock was met before; then it goes no further there. Each lock is followed
// once: there can be more ways through a tangle than a user has time for.
func (g *Graph) Walk(name string, visit func(depth int, s Step, waits []string, seen Seen)) {
	followed := map[string]bool{}
	var path []string
	var walk func(name string)
	walk = func(name string) {
		seen := First
		switch {
		case slices.Contains(path, name):
			seen = Circle
		case followed[name]:
			seen = Again
		}
		followed[name] = true
		depth := len(path)
		path = append(path, name)
		for _, owner := range g.holders(name) {
			visit(depth, Step{name, owner}, g.waits[owner], seen)
			if seen == First {
				for _, next := range g.waits[owner] {
					walk(next)
				}
			}
		}
		path = path[:depth]
	}
	walk(name)
}

// maxCycles bounds Cycles: a user with more has seen enough.
const maxCycles = 20

// Cycles returns circles of locks, each held by a process that waits for the next: for
// every wait that is part of a circle the shortest one, each once. Each begins with the
// lock that comes first by name. Not all circles there are: a tangle of a few locks has
// more than a user can read, and a wait that is in none of these is in none at all.
func (g *Graph) Cycles() [][]Step {
	var found [][]Step
	seen := map[string]bool{}
	part := g.components()
	for _, name := range slices.Sorted(maps.Keys(g.locks)) {
		for _, owner := range g.holders(name) {
			for _, next := range g.waits[owner] {
				if part[next] != part[name] || len(found) == maxCycles {
					continue
				}
				cycle := append([]Step{{name, owner}}, g.way(next, name)...)
				if key := keyOf(turned(cycle)); !seen[key] {
					seen[key] = true
					found = append(found, turned(cycle))
				}
			}
		}
	}
	return found
}

// way returns the shortest way from a lock to another of the same component, without
// the other one.
func (g *Graph) way(from, to string) []Step {
	type arrival struct {
		by   Step // the lock and the holder that lead here
		next string
	}
	came := map[string]arrival{to: {next: to}} // backwards: from each lock on to the next
	for queue := []string{to}; len(queue) > 0 && from != to; queue = queue[1:] {
		for _, s := range g.before[queue[0]] {
			if _, ok := came[s.Lock]; !ok {
				came[s.Lock] = arrival{s, queue[0]}
				queue = append(queue, s.Lock)
			}
		}
		if _, ok := came[from]; ok {
			break
		}
	}
	var steps []Step
	for at := from; at != to; at = came[at].next {
		steps = append(steps, came[at].by)
	}
	return steps
}

// components numbers the locks so that two have the same number if each can be reached
// from the other: only there are circles.
func (g *Graph) components() map[string]int {
	reach := func(from string, next func(string) []string, done map[string]bool, leave func(string)) {
		type frame struct {
			name string
			rest []string
		}
		done[from] = true
		for stack := []frame{{from, next(from)}}; len(stack) > 0; {
			top := &stack[len(stack)-1]
			if len(top.rest) == 0 {
				leave(top.name)
				stack = stack[:len(stack)-1]
				continue
			}
			name := top.rest[0]
			top.rest = top.rest[1:]
			if !done[name] {
				done[name] = true
				stack = append(stack, frame{name, next(name)})
			}
		}
	}
	// Kosaraju: leave everything once, then go backwards from what was left last.
	var left []string
	done := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(g.locks)) {
		if !done[name] {
			reach(name, g.after, done, func(n string) { left = append(left, n) })
		}
	}
	part, done := map[string]int{}, map[string]bool{}
	for i, name := range slices.Backward(left) {
		if !done[name] {
			reach(name, g.previous, done, func(n string) { part[n] = i })
		}
	}
	return part
}

// after are the locks that the holders of a lock wait for.
func (g *Graph) after(name string) []string {
	var all []string
	for _, owner := range g.holders(name) {
		all = append(all, g.waits[owner]...)
	}
	return all
}

// previous are the locks whose holders wait for a lock.
func (g *Graph) previous(name string) []string {
	var all []string
	for _, s := range g.before[name] {
		all = append(all, s.Lock)
	}
	return all
}

// turned is the circle from the lock on that comes first by name.
func turned(cycle []Step) []Step {
	first := 0
	for i, s := range cycle {
		if s.Lock < cycle[first].Lock {
			first = i
		}
	}
	return slices.Concat(cycle[first:], cycle[:first])
}

func keyOf(cycle []Step) string {
	var b strings.Builder
	for _, s := range cycle {
		b.WriteString(s.Lock + "\x00" + s.Holder + "\x00")
	}
	return b.String()
}

// Waits returns the locks that an owner waits for, by name, also through processes that run
// under its locks.
func (g *Graph) Waits(owner string) []string { return g.waits[owner] }
