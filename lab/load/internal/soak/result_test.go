// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/internal/deployment"
)

// TestResultIsKept: a result that was written is read back, and its slopes follow from its samples.
func TestResultIsKept(t *testing.T) {
	dir := t.TempDir()
	r := &Result{Server: "redis", Seconds: 1800, Samples: series(rand.New(rand.NewPCG(1, 1)), func(s float64, _ *rand.Rand) float64 { return 1000 * s })}
	r.judge()
	must.OK(t, r.write(dir))
	all, err := read(dir)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if n := all[0].leaks(); n != 1 {
		t.Errorf("%d leaks, want that of the heap", n)
	}
	if err := Kept(dir); err == nil || !strings.Contains(err.Error(), "heap grow by") {
		t.Errorf("the figures of a leak: %v", err)
	}
}

// TestWhatGrowsIsGivenAsLongAgain: a run in which a series seems to grow takes twice as long. What has only filled by then, as
// that of a client of PostgreSQL had in one of two runs, is no leak; what goes on is one.
func TestWhatGrowsIsGivenAsLongAgain(t *testing.T) {
	const length = 35 * time.Minute
	for name, c := range map[string]struct {
		heap  func(second float64) float64
		ran   time.Duration
		leaks int
	}{
		"constant": {func(float64) float64 { return 0 }, length, 0},
		"fills":    {func(s float64) float64 { return 12 * min(s, 2000) }, 2 * length, 0},
		"leaks":    {func(s float64) float64 { return 12 * s }, 2 * length, 1},
	} {
		r := &Result{Server: name}
		ran := time.Duration(0)
		must.OK(t, r.prolong(length, func(until time.Duration) error {
			rng := rand.New(rand.NewPCG(1, uint64(ran)))
			for s := ran.Seconds(); s < until.Seconds(); s += 8 {
				r.Samples = append(r.Samples, Sample{Second: s, Heap: int64(3e6 + c.heap(s) + 3000*rng.NormFloat64())})
			}
			ran, r.Seconds = until, until.Seconds()
			return nil
		}))
		if ran != c.ran {
			t.Errorf("%s: it ran for %v, want %v", name, ran, c.ran)
		}
		if n := r.leaks(); n != c.leaks {
			t.Errorf("%s: %d leaks, want %d: %v", name, n, c.leaks, r)
		}
	}
}

// TestRunThatSawNothingForLongFails: a store that cannot be used any more grows in nothing, and is no good result.
func TestRunThatSawNothingForLongFails(t *testing.T) {
	r := &Result{Seconds: 300, Samples: []Sample{{Second: 100}, {Second: 190}}}
	must.OK(t, r.verdict())
	r.Seconds = 400
	if err := r.verdict(); err == nil || !strings.Contains(err.Error(), "from second 190 to 400") {
		t.Errorf("a gap at the end: %v", err)
	}
	r.Samples = []Sample{{Second: 150}, {Second: 350}}
	if err := r.verdict(); err == nil || !strings.Contains(err.Error(), "from second 150 to 350") {
		t.Errorf("a gap between samples: %v", err)
	}
}

// TestWhatIsLeftIsReported: one goroutine or row too many at the end fails a run.
func TestWhatIsLeftIsReported(t *testing.T) {
	r := &Result{Base: Sample{Goroutines: 3, Files: 5, Entries: 2}, Left: Sample{Goroutines: 3, Files: 5, Entries: 2, Heap: 99}}
	if err := r.verdict(); err != nil {
		t.Errorf("nothing is left: %v", err)
	}
	r.Left.Entries++
	if err := r.verdict(); err == nil || !strings.Contains(err.Error(), "1 entries more") {
		t.Errorf("an entry is left: %v", err)
	}
	r.Left.Entries, r.Left.Heap = 2, 2<<20
	if err := r.verdict(); err == nil || !strings.Contains(err.Error(), "2097152 bytes more") {
		t.Errorf("a heap is left: %v", err)
	}
}

// TestFaultsAreThoseOfTheServer: a seed always gives the same faults, each deployment has every fault that it can have,
// and none that it cannot.
func TestFaultsAreThoseOfTheServer(t *testing.T) {
	for _, name := range strings.Split(usual, ",") {
		d, ok := deployment.Named(name)
		if !ok {
			t.Fatal(name)
		}
		seen := map[harm]bool{}
		a, b := rand.New(rand.NewPCG(1, 7)), rand.New(rand.NewPCG(1, 7))
		for range 1000 {
			m := choose(a, d, ttl)
			if m != choose(b, d, ttl) {
				t.Fatal("the same seed gives different faults")
			}
			if m.length < 0 || m.length > 3*ttl || m.server >= d.Shape.Servers {
				t.Errorf("%s: %+v", name, m)
			}
			seen[m.harm] = true
		}
		for _, w := range weights {
			want := true
			switch w.harm {
			case killServer:
				want = name != "memcached"
			case failover:
				want = name == "sentinel-grace" || name == "cluster-grace" || name == "etcd"
			case flushScripts:
				want = strings.Contains("redis-grace sentinel-grace cluster-grace quorum-5", name)
			}
			if seen[w.harm] != want {
				t.Errorf("%s: %q: %v, want %v", name, w.harm, seen[w.harm], want)
			}
		}
	}
}

// TestScalePageHasTheKeptRuns: the table of endurance is that of the kept results.
func TestScalePageHasTheKeptRuns(t *testing.T) {
	text, err := os.ReadFile("../../../results/scale.md")
	must.OK(t, err)
	all, err := read("../../results/soak")
	must.OK(t, err)
	if rows := table(all); !strings.Contains(string(text), rows) {
		t.Errorf("lab/results/scale.md has not the table of the kept results; make figures-scale prints it:\n%s", rows)
	}
}
