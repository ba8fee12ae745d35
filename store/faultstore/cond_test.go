// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// refusals attempts the names one after the other, a second apart, and returns
// the numbers of those that were refused, from 1.
func (r *rig) refusals(names ...string) []int {
	r.t.Helper()
	var refused []int
	for i, name := range names {
		_, _, err := r.attempt(name, time.Second)
		switch {
		case errors.Is(err, driver.ErrUnavailable):
			refused = append(refused, i+1)
		case err != nil:
			r.t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	return refused
}

func TestConditionsChooseCalls(t *testing.T) {
	names := []string{"a", "b", "a", "a", "b"}
	for _, test := range []struct {
		expr string
		want []int
	}{
		{"none", nil},
		{"refuse", []int{1, 2, 3, 4, 5}},
		{"on(attempt, refuse)", []int{1, 2, 3, 4, 5}},
		{"on(withdraw, refuse)", nil},
		{`name("b", refuse)`, []int{2, 5}},
		{`name("B", refuse)`, nil},
		{"nth(2, refuse)", []int{2}},
		{`name("a", nth(2, refuse))`, []int{3}},
		{`nth(3, name("b", refuse))`, nil}, // the third is about a
		{"after(3, refuse)", []int{4, 5}},
		{`name("a", after(1, refuse))`, []int{3, 4}},
		{"after(1, nth(1, refuse))", []int{2}},
		{"during(1s, 3s, refuse)", []int{2, 3}},
		{"for(2s, refuse)", []int{1, 2}},
		{`name("b", for(3s, refuse))`, []int{2}},
		{`name("b", for(3001ms, refuse))`, []int{2, 5}},
		{"after(1, for(2s, refuse))", []int{2, 3}},
		{"nth(2, for(1h, refuse))", []int{2}}, // it only sees the second
		{"prob(0, 1, refuse)", nil},
		{"prob(1, 1, refuse)", []int{1, 2, 3, 4, 5}},
		{"any(nth(1, refuse), nth(4, refuse))", []int{1, 4}},
		// A part that strikes does not hide the call from the next one's count.
		{"any(refuse, nth(2, dup), nth(3, dup))", []int{1, 2, 3, 4, 5}},
		{"any(nth(1, refuse), nth(2, refuse))", []int{1, 2}},
	} {
		t.Run(test.expr, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, test.expr, nil)
				if got := r.refusals(names...); !slices.Equal(got, test.want) {
					t.Errorf("refused %v, want %v", got, test.want)
				}
			})
		})
	}
}

func TestOneFaultBendsManyStoresEachWithItsOwnCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			if got := newRig(t, "nth(2, refuse)", nil).refusals("a", "b", "c"); !slices.Equal(got, []int{2}) {
				t.Errorf("refused %v, want the second", got)
			}
		}
	})
}

// choices attempts each of several names several times, every name in a separate
// goroutine, and returns which attempts of each were refused.
func choices(t *testing.T, expr string, shuffle *rand.Rand) map[string]string {
	r := newRig(t, expr, nil)
	const names, times = 8, 40
	order := shuffle.Perm(names)
	got := make(map[string]string)
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, n := range order {
		name := fmt.Sprint("lock", n)
		pause := time.Duration(shuffle.IntN(1000)) * time.Millisecond
		all.Go(func() {
			line := ""
			for range times {
				time.Sleep(pause)
				if _, _, err := r.attempt(name, time.Second); err != nil {
					line += "x"
				} else {
					line += "."
				}
			}
			mu.Lock()
			defer mu.Unlock()
			got[name] = line
		})
	}
	all.Wait()
	return got
}

func TestProbDoesNotDependOnTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := choices(t, "prob(0.3, 7, refuse)", rand.New(rand.NewPCG(0, 0)))
		distinct := make(map[string]bool)
		for _, line := range want {
			distinct[line] = true
		}
		if len(distinct) != len(want) {
			t.Errorf("names are not chosen independently: %v", want)
		}
		for seed := range uint64(20) {
			got := choices(t, "prob(0.3, 7, refuse)", rand.New(rand.NewPCG(seed, 1)))
			if !maps.Equal(got, want) {
				t.Fatalf("schedule %d: got %v, want %v", seed, got, want)
			}
		}
		// Nor does it depend on what stands around it or beside it.
		beside := choices(t, "any(nth(3, dup), on(attempt, prob(0.3, 7, refuse)))", rand.New(rand.NewPCG(9, 9)))
		if !maps.Equal(beside, want) {
			t.Errorf("beside others: got %v, want %v", beside, want)
		}
		if other := choices(t, "prob(0.3, 8, refuse)", rand.New(rand.NewPCG(0, 0))); maps.Equal(other, want) {
			t.Error("another seed makes the same choices")
		}
	})
}

func TestProbIsThatProbable(t *testing.T) {
	for _, p := range []float64{0.01, 0.2, 0.5, 0.9} {
		const calls = 20_000
		holds, struck := prob{p, 42}.fresh(), 0
		for i := range calls {
			if holds(&call{op: Attempt, about: "a", index: i}) {
				struck++
			}
		}
		if got := float64(struck) / calls; got < p-0.02 || got > p+0.02 {
			t.Errorf("prob(%v) struck %v of the calls", p, got)
		}
	}
}
