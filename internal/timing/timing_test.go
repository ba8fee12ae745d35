// SPDX-License-Identifier: Apache-2.0

package timing

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// eval computes one line of testdata/cases.txt: a function and its arguments.
func eval(t *testing.T, f []string) time.Duration {
	t.Helper()
	d := func(i int) time.Duration {
		v, err := time.ParseDuration(f[i])
		must.OK(t, err)
		return v
	}
	n := func(i int) float64 {
		v, err := strconv.ParseFloat(f[i], 64)
		must.OK(t, err)
		return v
	}
	switch f[0] {
	case "trust":
		return Trust(d(1), n(2), d(3))
	case "renew":
		return RenewAfter(d(1), n(2))
	case "spread":
		return RenewSpread(d(1), n(2))
	case "try":
		return TryTimeout(d(1), d(2))
	case "backoff":
		return Backoff(int(n(1)), d(2), d(3), n(4))
	case "hinted":
		return HintedPoll(d(1), d(2), d(3), n(4))
	case "poll":
		return Poll(int(n(1)), d(2), n(3))
	}
	t.Fatalf("unknown function %q", f[0])
	return 0
}

func TestCases(t *testing.T) {
	file, err := os.Open("testdata/cases.txt")
	must.OK(t, err)
	defer file.Close()
	lines, checked := bufio.NewScanner(file), 0
	for number := 1; lines.Scan(); number++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		call, want, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		got := eval(t, strings.Fields(call))
		if fmt.Sprint(got) != strings.TrimSpace(want) {
			t.Errorf("testdata/cases.txt:%d: %s= %v, want %s", number, call, got, want)
		}
		checked++
	}
	if checked < 20 {
		t.Errorf("only %d cases were checked", checked)
	}
}

// TestBounds draws many values: whatever the arguments, nothing is trusted past
// the TTL, no pause is negative, and a renewal comes before the trust ends.
func TestBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		ttl := time.Duration(rng.Int64N(int64(time.Hour))) + time.Millisecond
		drift, r := rng.Float64()/2, rng.Float64()
		margin := time.Duration(rng.Int64N(int64(ttl)))
		trust := Trust(ttl, drift, margin)
		if trust > ttl {
			t.Fatalf("Trust(%v, %v, %v) = %v, more than the TTL", ttl, drift, margin, trust)
		}
		if trust > 0 && (RenewAfter(trust, r) >= trust || RenewAfter(trust, r) < 0) {
			t.Fatalf("RenewAfter(%v, %v) = %v", trust, r, RenewAfter(trust, r))
		}
		if got := RenewSpread(trust, r); got > trust || trust > 0 && got < trust/11 {
			t.Fatalf("RenewSpread(%v, %v) = %v", trust, r, got)
		}
		n := 1 + rng.IntN(100)
		for what, d := range map[string]time.Duration{
			"Backoff": Backoff(n, ttl/100, ttl, r), "Look": HintedPoll(margin, ttl/64, ttl, r) / 2, "Poll": Poll(n, ttl, r),
		} {
			if d < 0 || d > ttl {
				t.Fatalf("%s(n=%d, ttl=%v, r=%v) = %v, not within 0 and the TTL", what, n, ttl, r, d)
			}
		}
	}
}
