// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"math"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

func TestFigureLine(t *testing.T) {
	for _, tt := range []struct {
		f    Figure
		want string
	}{
		{Figure{Name: "a", Value: 2.0004, Goal: AtMost(2)}, "figure a 2 <=2"},
		{Figure{Name: "b", Value: 0.456, Goal: AtLeast(0.9)}, "figure b 0.46 >=0.9"},
		{Figure{Name: "c", Value: 12345.678}, "figure c 12345.68 -"},
		{Figure{Name: "d", Value: math.NaN(), Goal: AtMost(1)}, "figure d missing <=1"},
		{Figure{Name: "e", Value: -0.001, Goal: Exactly(0)}, "figure e 0 =0"},
	} {
		if got := tt.f.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestFind(t *testing.T) {
	want := []Figure{{Name: "a", Value: 2.5, Goal: AtMost(2)}, {Name: "b", Value: math.NaN(), Goal: Exactly(0)}, {Name: "c", Value: 3}}
	output := "=== RUN TestX\nsim: 3 schedules\n"
	for _, f := range want {
		output += f.String() + "\n"
	}
	got := Find(output + "figure of speech\nok\n")
	if len(got) != len(want) {
		t.Fatalf("found %v, want %v", got, want)
	}
	for i := range want {
		if got[i].String() != want[i].String() {
			t.Errorf("found %v, want %v", got[i], want[i])
		}
	}
}

func TestBound(t *testing.T) {
	for _, tt := range []struct {
		bound string
		value float64
		want  bool
	}{
		{"<=2", 2.004, true}, // printed as 2
		{"<=2", 2.006, false},
		{">=0.9", 0.9, true},
		{">=0.9", 0.89, false},
		{">=0.9", math.NaN(), false},
		{"<=0.9", math.NaN(), false},
		{"<=0.9", math.Inf(1), false},
		{">=0.9", math.Inf(1), false},
		{"=0", 0, true},
		{"=0", 1, false},
		{"=0", math.NaN(), false},
	} {
		b, err := ParseBound(tt.bound)
		must.OK(t, err)
		if b.String() != tt.bound {
			t.Errorf("%q is printed as %q", tt.bound, b)
		}
		if got := b.Holds(tt.value); got != tt.want {
			t.Errorf("%v %s: %v, want %v", tt.value, tt.bound, got, tt.want)
		}
	}
	for _, bad := range []string{"", "2", "<2", ">=", ">=x", "-"} {
		if b, err := ParseBound(bad); err == nil {
			t.Errorf("ParseBound(%q) = %v and no error", bad, b)
		}
	}
	if (Bound{}).Holds(math.NaN()) || !(Bound{}).Holds(5) {
		t.Error("no bound holds for every number, and for nothing that is missing")
	}
}

func TestFloors(t *testing.T) {
	floors, err := ParseFloors("# comment\n\nfast >=0.5\nlean <=3\n")
	must.OK(t, err)
	for _, tt := range []struct {
		name    string
		figures []Figure
		want    []string // in the error; none means no error
	}{
		{"both above", []Figure{{Name: "fast", Value: 0.6}, {Name: "lean", Value: 2}}, nil},
		{"a goal missed is none", []Figure{{Name: "fast", Value: 0.6, Goal: AtLeast(2)}, {Name: "lean", Value: 2}}, nil},
		{"one below", []Figure{{Name: "fast", Value: 0.4, Part: "uncontended"}, {Name: "lean", Value: 2}},
			[]string{"fast is 0.4 and must be >=0.5", "go run ./lab/bench -suite redis -only uncontended"}},
		{"both below", []Figure{{Name: "fast", Value: 0.4}, {Name: "lean", Value: 4}}, []string{"fast is 0.4", "lean is 4 and must be <=3"}},
		{"missing", []Figure{{Name: "fast", Value: math.NaN()}, {Name: "lean", Value: 2}}, []string{"fast is missing"}},
		{"not measured", []Figure{{Name: "lean", Value: 2}}, []string{"the floor of fast was not checked"}},
		{"without a floor", []Figure{{Name: "fast", Value: 1}, {Name: "lean", Value: 2}, {Name: "new", Value: 2}}, []string{"new has no floor"}},
	} {
		err := floors.Judge("redis", tt.figures)
		if len(tt.want) == 0 && err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q in it", tt.name, err, want)
			}
		}
	}
	for _, bad := range []string{"a\n", "a 5\n", "a >=1\na >=2\n"} {
		if f, err := ParseFloors(bad); err == nil {
			t.Errorf("ParseFloors(%q) = %v and no error", bad, f)
		}
	}
}

func TestBetter(t *testing.T) {
	floors := Floors{"fast": AtLeast(0.5), "lean": AtMost(3)}
	for _, tt := range []struct {
		name       string
		a, b, want float64
	}{
		{"fast", 0.4, 0.6, 0.6}, {"fast", 0.6, 0.4, 0.6}, {"lean", 4, 2, 2}, {"lean", 2, 4, 2},
		{"fast", math.NaN(), 0.1, 0.1}, {"fast", 0.1, math.NaN(), 0.1},
	} {
		if got := floors.Better(Figure{Name: tt.name, Value: tt.a}, Figure{Name: tt.name, Value: tt.b}); got.Value != tt.want {
			t.Errorf("%s of %v and %v: %v", tt.name, tt.a, tt.b, got.Value)
		}
	}
	below := floors.Below([]Figure{{Name: "fast", Value: 0.4}, {Name: "lean", Value: 3}, {Name: "other", Value: 0}})
	if len(below) != 1 || below[0].Name != "fast" {
		t.Errorf("Below = %v, want fast alone", below)
	}
}
