// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
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
		if who = strings.TrimSpace(who); who != "" {
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
	g.Walk("a", func(depth int, s Step, waits []string, circle bool) {
		got = append(got, fmt.Sprintf("%d %s %s %v %v", depth, s.Lock, s.Holder, waits, circle))
	})
	want := []string{"0 a p [b d] false", "1 b r [d] false", "2 d s [] false", "1 d s [] false"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	circles := 0
	New(parse("a: p < q\nb: q < p")).Walk("a", func(_ int, _ Step, _ []string, circle bool) {
		if circle {
			circles++
		}
	})
	if circles != 1 {
		t.Errorf("%d circles", circles)
	}
}

// TestManyCycles: a tangle of many does not take for ever.
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
	if n := len(New(locks).Cycles()); n < maxCycles || n > 2*maxCycles {
		t.Errorf("%d cycles", n)
	}
}
