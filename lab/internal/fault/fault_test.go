// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"strings"
	"testing"
	"time"
)

var shape = Shape{Clients: 4, Servers: 3, TTL: time.Second, Replicated: true, Votes: true}

// TestPlansReplay: the same seed makes the same plan, and a printed plan reads
// back as itself.
func TestPlansReplay(t *testing.T) {
	differ := 0
	for _, k := range Kinds {
		p := k.Plan(7, shape)
		if again := k.Plan(7, shape); again.String() != p.String() {
			t.Errorf("%s: seed 7 made %q and %q", k.Name, p, again)
		}
		if k.Plan(8, shape).String() != p.String() {
			differ++
		}
		back, err := Parse(p.String())
		if err != nil || back.String() != p.String() {
			t.Errorf("%s: %q was read back as %q, %v", k.Name, p, back, err)
		}
		if k.Name != "calm" && len(p) == 0 {
			t.Errorf("%s does nothing", k.Name)
		}
	}
	if differ < len(Kinds)/2 {
		t.Errorf("only %d of %d plans differ between two seeds", differ, len(Kinds))
	}
}

func TestPlansCompose(t *testing.T) {
	a, _ := Parse("2s kill client:1")
	b, _ := Parse("1s delay client:0 by 50ms for 2s")
	if got, want := Join(a, b).String(), "1s delay client:0 by 50ms for 2s; 2s kill client:1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Join(a, b).Length(); got != 3*time.Second {
		t.Errorf("it lasts %v, want 3s", got)
	}
}

func TestBadPlans(t *testing.T) {
	for text, want := range map[string]string{
		"1s kill":                      "want TIME VERB TARGET",
		"soon kill client:1":           "invalid duration",
		"1s tickle client:1":           `there is no "tickle"`,
		"1s stop client:1 until 2s":    "neither at nor by nor for",
		"1s stop client:1 for a while": "want TIME VERB TARGET",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestMajority: the servers that are left cannot decide, whatever the seed.
func TestMajority(t *testing.T) {
	k, _ := Named("majority-down")
	for seed := range uint64(50) {
		for _, n := range []int{3, 5} {
			down := map[string]bool{}
			for _, s := range k.Plan(seed, Shape{Clients: 4, Servers: n, TTL: time.Second, Votes: true}) {
				down[s.Target] = true
			}
			if n-len(down) > n/2 {
				t.Fatalf("seed %d stops %d of %d", seed, len(down), n)
			}
		}
	}
}
