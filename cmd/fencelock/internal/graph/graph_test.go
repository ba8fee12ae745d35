// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// parse reads "lock: holder,... < waiter,..."; "x/y" is x under the lock of y.
func parse(text string) []Lock {
	var locks []Lock
	for line := range strings.SplitSeq(text, "\n") {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		holders, waiters, _ := strings.Cut(rest, "<")
		locks = append(locks, Lock{Name: name, Holders: people(holders), Waiters: people(waiters)})
	}
	return locks
}

func people(list string) []Party {
	var all []Party
	for who := range strings.SplitSeq(list, ",") {
		who = strings.TrimSpace(who)
		if who != "" {
			owner, under, _ := strings.Cut(who, "/")
			all = append(all, Party{owner, under})
		}
	}
	return all
}

func TestCycles(t *testing.T) {
	for name, tt := range map[string]struct{ locks, want string }{
		"none":          {"a: p < q\nb: q", ""},
		"chain":         {"a: p < q\nb: q < r\nc: r", ""},
		"two":           {"a: p < q\nb: q < p", "a(p) b(q)"},
		"three":         {"a: p < r\nb: q < p\nc: r < q", "a(p) b(q) c(r)"},
		"itself":        {"a: p < p", "a(p)"},
		"nested":        {"a: p < q2/q\nb: q < p2/p", "a(p) b(q)"},
		"deeply nested": {"a: p < q3/q2\nb: q\nc: q2/q < \nd: x < p\nb2: q < \nb3: y < ", ""},
		"readers":       {"a: p, q < r\nb: r < q", "a(q) b(r)"},
		"two circles":   {"a: p < q\nb: q < p\nc: r < s\nd: s < r", "a(p) b(q)|c(r) d(s)"},
		"label circle":  {"a: p/p < q/r, r/q", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var found []string
			for _, c := range New(parse(tt.locks)).Cycles() {
				var parts []string
				for _, s := range c {
					parts = append(parts, fmt.Sprintf("%s(%s)", s.Lock, s.Holder))
				}
				found = append(found, strings.Join(parts, " "))
			}
			if got := strings.Join(found, "|"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWalk(t *testing.T) {
	g := New(parse("a: p < q\nb: r < p\nc: r2/r < \nd: s < r2/r, p\ne: s"))
	var got []string
	g.Walk("a", func(depth int, s Step, waits []string, seen Seen) {
		got = append(got, fmt.Sprintf("%d %s %s %v %v", depth, s.Lock, s.Holder, waits, seen))
	})
	want := []string{"0 a p [b d] 0", "1 b r [d] 0", "2 d s [] 0", "1 d s [] 1"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	circles := 0
	New(parse("a: p < q\nb: q < p")).Walk("a", func(_ int, _ Step, _ []string, seen Seen) {
		if seen == Circle {
			circles++
		}
	})
	if circles != 1 {
		t.Errorf("%d circles", circles)
	}
}

// TestManyCycles: the search ends soon even in a graph with many cycles.
func TestManyCycles(t *testing.T) {
	var locks []Lock
	for i := range 12 {
		l := Lock{Name: fmt.Sprintf("l%02d", i), Holders: []Party{{Owner: fmt.Sprintf("p%d", i)}}}
		for j := range 12 {
			if j != i {
				l.Waiters = append(l.Waiters, Party{Owner: fmt.Sprintf("p%d", j)})
			}
		}
		locks = append(locks, l)
	}
	if n := len(New(locks).Cycles()); n != maxCycles {
		t.Errorf("%d cycles", n)
	}
}

// TestTangle: a ladder of locks has two to the power of its length ways and no circle,
// and one with a way back has as many circles. Neither takes long.
func TestTangle(t *testing.T) {
	const rungs = 60
	for _, back := range []bool{false, true} {
		var locks []Lock
		for i := range rungs {
			for _, side := range "ab" {
				l := Lock{Name: fmt.Sprintf("%02d%c", i, side), Holders: []Party{{Owner: fmt.Sprintf("p%d%c", i, side)}}}
				if i > 0 { // both of the rung before wait for both of this one
					l.Waiters = []Party{{Owner: fmt.Sprintf("p%da", i-1)}, {Owner: fmt.Sprintf("p%db", i-1)}}
				}
				if back && i == 0 {
					l.Waiters = []Party{{Owner: fmt.Sprintf("p%da", rungs-1)}}
				}
				locks = append(locks, l)
			}
		}
		g := New(locks)
		steps := 0
		g.Walk("00a", func(int, Step, []string, Seen) { steps++ })
		if steps > 6*rungs {
			t.Errorf("%d steps for %d locks", steps, len(locks))
		}
		cycles := g.Cycles()
		if (len(cycles) > 0) != back {
			t.Errorf("a way back is %v, circles: %d", back, len(cycles))
		}
		for _, c := range cycles {
			for i, s := range c {
				if next := c[(i+1)%len(c)].Lock; !slices.Contains(g.waits[s.Holder], next) {
					t.Errorf("%s does not wait for %s", s.Holder, next)
				}
			}
		}
	}
}

// TestEdgesOfAProcessAreBounded: a process that holds and waits for many locks has no edge for
// each pair, and its circle is still found.
func TestEdgesOfAProcessAreBounded(t *testing.T) {
	var locks []Lock
	for i := range 10 * maxWaits {
		locks = append(locks, Lock{Name: fmt.Sprintf("%04d", i), Holders: []Party{{Owner: "p"}}, Waiters: []Party{{Owner: "p"}}})
	}
	g := New(locks)
	edges := 0
	for _, steps := range g.before {
		edges += len(steps)
	}
	if want := len(locks) * maxWaits; edges != want {
		t.Errorf("%d edges, want %d", edges, want)
	}
	if len(g.Cycles()) != maxCycles {
		t.Errorf("%d circles", len(g.Cycles()))
	}
}
