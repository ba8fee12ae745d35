// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// leaves and conditions make one random fault each, all kinds alike.
var leaves = []func(*rand.Rand) Fault{
	func(*rand.Rand) Fault { return None() },
	func(*rand.Rand) Fault { return LoseRequest() },
	func(*rand.Rand) Fault { return LoseReply() },
	func(*rand.Rand) Fault { return Dup() },
	func(*rand.Rand) Fault { return Refuse() },
	func(*rand.Rand) Fault { return Fail() },
	func(*rand.Rand) Fault { return ResetAll() },
	func(*rand.Rand) Fault { return ResetSome() },
	func(r *rand.Rand) Fault { return Delay(randomTime(r), randomTime(r)-1) },
	func(r *rand.Rand) Fault { return Step(randomTime(r)) },
	func(r *rand.Rand) Fault { return Step(-randomTime(r)) },
	func(r *rand.Rand) Fault { return Pause(randomTime(r)) },
	func(r *rand.Rand) Fault { return Cut(randomTime(r)) },
}

var conditions = []func(*rand.Rand, Fault) Fault{
	func(r *rand.Rand, f Fault) Fault { return On(allOps[r.IntN(len(allOps))], f) },
	func(r *rand.Rand, f Fault) Fault { return Name(randomName(r), f) },
	func(r *rand.Rand, f Fault) Fault { return Nth(1+r.IntN(9), f) },
	func(r *rand.Rand, f Fault) Fault { return After(r.IntN(9), f) },
	func(r *rand.Rand, f Fault) Fault { return Prob(r.Float64()*r.Float64()*1e-3, r.Uint64(), f) },
	func(r *rand.Rand, f Fault) Fault { return Prob(float64(r.IntN(2)), 7, f) },
	func(r *rand.Rand, f Fault) Fault { return For(randomTime(r), f) },
	func(r *rand.Rand, f Fault) Fault {
		from := randomTime(r)
		return During(from-1, from+randomTime(r), f)
	},
}

// randomTime returns at least 1ns, in any order of magnitude up to a year.
func randomTime(r *rand.Rand) time.Duration {
	return 1 + time.Duration(r.Int64N(int64(365*24*time.Hour)))>>r.IntN(55)
}

// randomName returns a name of any bytes, also those that end other words.
func randomName(r *rand.Rand) string {
	const odd = "(),\"\\\n` \x00\xffé世a/"
	b := make([]byte, r.IntN(8))
	for i := range b {
		b[i] = odd[r.IntN(len(odd))]
	}
	return string(b)
}

func randomFault(r *rand.Rand, depth int) Fault {
	if depth == 0 || r.IntN(4) == 0 {
		return leaves[r.IntN(len(leaves))](r)
	}
	if r.IntN(4) == 0 {
		return Any(randomFault(r, depth-1), randomFault(r, depth-1), randomFault(r, depth-1))
	}
	return conditions[r.IntN(len(conditions))](r, randomFault(r, depth-1))
}

func TestParseReadsBackWhatAFaultPrints(t *testing.T) {
	for seed := range uint64(5000) {
		want := randomFault(rand.New(rand.NewPCG(seed, 0)), 5)
		got, err := Parse(want.String())
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, want, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %s is read back as %s", seed, want, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(randomFault(rand.New(rand.NewPCG(seed, 1)), 3).String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		fault, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(fault.String())
		if err != nil || !reflect.DeepEqual(again, fault) {
			t.Errorf("%q prints as %s, which is read back as %v, %v", text, fault, again, err)
		}
	})
}

func TestParseAllowsAnySpaceAndPrintsOneForm(t *testing.T) {
	const text = "\n any (on( attempt ,prob(2e-1,7,lose(reply))),\n\tname(\"\\u0061, b)\",step(5000ms)) , any(dup) )"
	const want = `any(on(attempt, prob(0.2, 7, lose(reply))), name("a, b)", step(+5s)), dup)`
	if got := MustParse(text).String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestParseErrorsNameThePositionAndWhatIsAllowed(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "character 1, the end: want a fault: one of none, dup, refuse, fail, lose,",
		"lsoe(reply)":                   "character 1, `lsoe`: want a fault: one of none, dup,",
		"lose(answer)":                  "character 6, `answer`: want request or reply",
		"lose reply":                    "character 6, `reply`: want (",
		"reset(most)":                   "character 7, `most`: want all or some",
		"on(atempt, dup)":               "character 4, `atempt`: want an operation: one of open, keepalive, attempt,",
		"on(attempt dup)":               "character 12, `dup`: want ,",
		"on(attempt, dup":               "character 16, the end: want )",
		"on(attempt, dup, dup)":         "character 16, `,`: want )",
		"on(attempt)":                   "character 11, `)`: want ,",
		"name(a, dup)":                  "character 6, `a`: want a lock name in quotes",
		`name("a, dup)`:                 "character 6, `\"a, dup)`: want a lock name in quotes",
		"nth(two, dup)":                 "character 5, `two`: want a whole number",
		"any(dup, nth(0, dup))":         "character 10, `nth`: calls are counted from 1, not 0",
		"prob(20%, 7, dup)":             "character 6, `20%`: want a probability from 0 to 1",
		"prob(NaN, 7, dup)":             "character 1, `prob`: want a probability from 0 to 1, not NaN",
		"prob(0.2, dup)":                "character 11, `dup`: want a seed",
		"during(5s, 3s, dup)":           "character 1, `during`: want a time from 0s on that ends after it begins, not 5s to 3s",
		"delay(250, 0s)":                "character 7, `250`: want a duration like 250ms",
		"delay(1s)":                     "character 9, `)`: want ,",
		"for(0s, dup)":                  "character 1, `for`: want a time above 0s, not 0s",
		"step(0s)":                      "character 1, `step`: a step of 0s changes nothing",
		"cut(-1s)":                      "character 1, `cut`: want a time above 0s, not -1s",
		"dup, dup":                      "character 4, `,`: want the end; to combine faults write any(f, g)",
		"dup()":                         "character 4, `(`: want the end",
		"any()":                         "character 5, `)`: want a fault",
		"any(dup,)":                     "character 9, `)`: want a fault",
		`any(name("世界", dup), refused)`: "character 22, `refused`: want a fault",
	} {
		_, err := Parse(text)
		if err == nil || !strings.HasPrefix(err.Error(), "faultstore: fault at "+want) {
			t.Errorf("%s\n got %v\nwant faultstore: fault at %s", text, err, want)
		}
	}
}

func TestEveryWordOfTheErrorTextIsUnderstood(t *testing.T) {
	r := rand.New(rand.NewPCG(0, 2))
	begins := []string{"any"}
	for _, leaf := range leaves {
		begins = append(begins, first(leaf(r).String()))
	}
	for _, condition := range conditions {
		begins = append(begins, first(condition(r, Dup()).String()))
	}
	slices.Sort(begins)
	if got, want := slices.Compact(begins), slices.Sorted(slices.Values(words)); !slices.Equal(got, want) {
		t.Errorf("faults begin with %q, the error text says %q", got, want)
	}
}

// first returns the first word of an expression.
func first(expr string) string {
	begin, _, _ := strings.Cut(expr, "(")
	return begin
}

func TestMustParsePanicsWithTheError(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), "want a fault") {
			t.Errorf("recovered %v", err)
		}
	}()
	MustParse("nonsense")
}
