// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"math"
	"math/rand/v2"
	"testing"
)

// series makes the samples of half an hour, whose heap is what f returns.
func series(rng *rand.Rand, f func(second float64, rng *rand.Rand) float64) (all []Sample) {
	for second := 0.0; second < 1800; second += 12 {
		all = append(all, Sample{Second: second, Heap: int64(f(second, rng)), Goroutines: 40, Files: 12})
	}
	return all
}

// TestSlopeFindsALeakInNoise: 64 bytes for each of 20 operations per second are found although samples
// differ by a megabyte.
func TestSlopeFindsALeakInNoise(t *testing.T) {
	found := 0
	for seed := range uint64(20) {
		samples := series(rand.New(rand.NewPCG(seed, 1)), func(second float64, rng *rand.Rand) float64 {
			return 8e6 + 1e6*rng.Float64() + 64*20*second
		})
		s := slopeOf(metrics[0], samples, 450)
		if s.Leak {
			found++
		}
		if want := 64.0 * 20 * 3600; s.Low > want || s.High < want {
			t.Errorf("seed %d: the slope is between %g and %g, and in truth %g", seed, s.Low, s.High, want)
		}
	}
	if found < 19 {
		t.Errorf("%d of 20 leaks are found", found)
	}
}

// TestSlopeOfNoiseIsNoLeak: of a thousand series without a trend, at most three count as a leak. Some have
// spikes, and the warm-up grows.
func TestSlopeOfNoiseIsNoLeak(t *testing.T) {
	leaks := 0
	for seed := range uint64(1000) {
		samples := series(rand.New(rand.NewPCG(seed, 2)), func(second float64, rng *rand.Rand) float64 {
			v := 8e6 + 1e5*rng.NormFloat64() + 5e6*math.Min(1, second/400)
			if rng.IntN(10) == 0 {
				v += 4e6 // a connection was being made
			}
			return v
		})
		if slopeOf(metrics[0], samples, 450).Leak {
			leaks++
		}
	}
	if leaks > 3 {
		t.Errorf("%d of 1000 series without a trend count as a leak", leaks)
	}
}

// TestWhatFillsInStepsIsNoLeak: a heap as that of a client of memcached was, with its last step after twelve of 35 minutes.
// A kilobyte a minute more is one.
func TestWhatFillsInStepsIsNoLeak(t *testing.T) {
	for seed := range uint64(20) {
		grows := 0.0
		heap := func(second float64, rng *rand.Rand) float64 {
			v := 2.62e6 + 3e3*rng.NormFloat64() + grows*second
			for _, step := range []float64{180, 320, 430, 620} {
				if second > step {
					v += 5e4
				}
			}
			return v
		}
		if s := slopeOf(metrics[0], series(rand.New(rand.NewPCG(seed, 4)), heap), 450); s.Leak {
			t.Errorf("seed %d: steps that end count as a leak: %+v", seed, s)
		}
		grows = 1024.0 / 60
		if s := slopeOf(metrics[0], series(rand.New(rand.NewPCG(seed, 4)), heap), 450); !s.Leak {
			t.Errorf("seed %d: a kilobyte a minute does not count: %+v", seed, s)
		}
	}
}

// TestSlopeOfAConstant: goroutines that are always as many have the slope 0. One more every five minutes is a leak.
func TestSlopeOfAConstant(t *testing.T) {
	samples := series(rand.New(rand.NewPCG(1, 3)), func(float64, *rand.Rand) float64 { return 1e6 })
	if s := slopeOf(metrics[1], samples, 450); s.PerHour != 0 || s.Leak {
		t.Errorf("a constant has the slope %+v", s)
	}
	for i := range samples {
		samples[i].Goroutines += int64(samples[i].Second / 300)
	}
	if s := slopeOf(metrics[1], samples, 450); !s.Leak {
		t.Errorf("a goroutine every five minutes has the slope %+v", s)
	}
}

// TestFewSamplesProveNothing: with some points any slope is possible.
func TestFewSamplesProveNothing(t *testing.T) {
	var samples []Sample
	for i := range 12 {
		samples = append(samples, Sample{Second: float64(i), Heap: int64(i)})
	}
	if s := slopeOf(metrics[0], samples, 0); s.Leak || !math.IsInf(s.Low, -1) {
		t.Errorf("three medians have the slope %+v", s)
	}
	if r := (&Result{Slopes: []Slope{slopeOf(metrics[0], samples, 0)}}); r.undecided() != 1 {
		t.Error("three medians count as decided")
	}
}
