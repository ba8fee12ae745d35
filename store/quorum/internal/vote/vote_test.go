// SPDX-License-Identifier: Apache-2.0

package vote

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

// eachLine calls f with the lines of a text file that say something, cut at =>.
func eachLine(t *testing.T, file string, f func(t *testing.T, given, want string)) {
	text, err := os.ReadFile("testdata/" + file)
	must.OK(t, err)
	count := 0
	for i, line := range strings.Split(string(text), "\n") {
		given, want, ok := strings.Cut(line, "=>")
		if strings.HasPrefix(line, "#") || !ok {
			continue
		}
		count++
		t.Run(fmt.Sprintf("line %d", i+1), func(t *testing.T) {
			f(t, strings.TrimSpace(given), strings.TrimSpace(want))
		})
	}
	if count < 10 {
		t.Fatalf("%s has %d lines that say something", file, count)
	}
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	must.OK(t, err)
	return n
}

// words are the votes that are not a grant.
var words = map[string]State{".": Open, "n": No, "r": Rest, "x": Out}

func (v Verdict) String() string {
	switch v.Kind {
	case Pending, Lost:
		return v.Kind.String()
	}
	s := fmt.Sprintf("%v %d on", v.Kind, v.Token)
	for i := range 64 {
		if v.Nodes.Has(i) {
			s += " " + strconv.Itoa(i)
		}
	}
	return s
}

func TestDecide(t *testing.T) {
	eachLine(t, "decide.txt", func(t *testing.T, given, want string) {
		need, list, _ := strings.Cut(given, ":")
		var votes []Vote
		for _, w := range strings.Fields(list) {
			if state, ok := words[w]; ok {
				votes = append(votes, Vote{State: state})
			} else {
				votes = append(votes, Vote{State: Yes, Token: driver.Token(number(t, w))})
			}
		}
		if got := Decide(number(t, need), votes).String(); got != want {
			t.Errorf("%s: got %q, want %q", given, got, want)
		}
	})
}

func TestRenew(t *testing.T) {
	set := func(t *testing.T, list []string) (s Set) {
		for _, w := range list {
			s = s.With(number(t, w))
		}
		return s
	}
	eachLine(t, "renew.txt", func(t *testing.T, given, want string) {
		nodes, claims, _ := strings.Cut(given, ":")
		f := strings.Fields(nodes)
		at := slices.Index(f, "open")
		kept, open := set(t, f[2:at]), set(t, f[at+1:])
		var groups []Group
		for _, c := range strings.Fields(claims) {
			on, need, _ := strings.Cut(c, "/")
			groups = append(groups, Group{set(t, strings.Split(on, ",")), number(t, need)})
		}
		if got := Renew(number(t, f[0]), groups, kept, open).String(); got != want {
			t.Errorf("%s: got %q, want %q", given, got, want)
		}
	})
}

func TestNeeded(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4} {
		if got := Needed(n, false); got != want {
			t.Errorf("of %d nodes %d are needed, want %d", n, got, want)
		}
		if got := Needed(n, true); got != n {
			t.Errorf("of %d nodes %d are needed with a limit, want all", n, got)
		}
	}
}

func TestPollAfter(t *testing.T) {
	no := func(d time.Duration) Vote { return Vote{State: No, After: d} }
	rest := func(d time.Duration) Vote { return Vote{State: Rest, After: d} }
	yes, out := Vote{State: Yes, Token: 1}, Vote{State: Out}
	for _, c := range []struct {
		votes   []Vote
		after   time.Duration
		resting bool
	}{
		{[]Vote{no(3), no(1), no(2)}, 2, false},
		{[]Vote{yes, no(1), no(2)}, 1, false},
		{[]Vote{yes, no(9), out}, 9, false},
		{[]Vote{out, no(1), out}, 0, false},
		{[]Vote{no(0), no(0), no(2)}, 0, false},
		{[]Vote{rest(5), no(1), no(2)}, 2, false},
		{[]Vote{rest(5), rest(7), no(2)}, 5, true},
		{[]Vote{rest(5), rest(7), yes}, 5, true},
		{[]Vote{rest(5), rest(7), rest(6)}, 6, true},
	} {
		if after, resting := PollAfter(2, c.votes); after != c.after || resting != c.resting {
			t.Errorf("%v: got %d and %v, want %d and %v", c.votes, after, resting, c.after, c.resting)
		}
	}
}

func TestEndsIn(t *testing.T) {
	for _, c := range []struct {
		need int
		ends []time.Duration
		want time.Duration
	}{
		{2, []time.Duration{1, 2, 3}, 2},
		{3, []time.Duration{5, 1, 2, 9, 4}, 4},
		{2, []time.Duration{7}, 0},
		{1, []time.Duration{7}, 7},
	} {
		if got := EndsIn(c.need, c.ends); got != c.want {
			t.Errorf("%d of %v: got %d, want %d", c.need, c.ends, got, c.want)
		}
	}
}

func TestSkews(t *testing.T) {
	from, spread := Skews([]time.Duration{5, 0, 100, 2, 1})
	if spread != 100 || !slices.Equal(from, []time.Duration{3, -2, 98, 0, -1}) {
		t.Errorf("got %v and %v", from, spread)
	}
	if from, spread := Skews(nil); from != nil || spread != 0 {
		t.Errorf("of no clock: got %v and %v", from, spread)
	}
	if Alarming(100, 1000) || !Alarming(101, 1000) {
		t.Error("a tenth of the quarantine is the bound of the alarm")
	}
	if !Counts(499, 1000) || Counts(500, 1000) || Counts(-500, 1000) {
		t.Error("half of the quarantine is the bound of counting")
	}
}
