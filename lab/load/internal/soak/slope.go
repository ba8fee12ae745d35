// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"math"
	"slices"
)

// point is one value at one time.
type point struct{ at, value float64 }

// Slope is how fast a series grows, per hour, with the range in which the true slope is.
type Slope struct {
	Metric string `json:"metric"`
	// PerHour is the Theil–Sen estimate: the median of the slopes between all pairs of points.
	PerHour float64 `json:"per_hour"`
	// Low and High are the confidence interval that follows from Kendall's statistic.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Level is the median of the values, to compare the slope with.
	Level float64 `json:"level"`
	// Leak is set if the whole interval is above 0, and the last half still grows, at no less than half of its bottom:
	// what fills up in the first minutes, in steps, is no leak, but no range knows that.
	Leak bool `json:"leak"`
}

// confidence is the two-sided level in standard deviations: about 0.0005, so that of the 36 series of
// nine servers together less than one in a hundred runs has a false leak.
const confidence = 3.5

// blockOf is how many successive samples are replaced by their median: samples that are close in time are
// not independent, which the test assumes.
const blockOf = 4

// medians replaces each block of successive points by the medians of times and values; what is left at the
// beginning is dropped.
func medians(points []point, block int) []point {
	var out []point
	for rest := points[len(points)%block:]; len(rest) > 0; rest = rest[block:] {
		var at, value []float64
		for _, p := range rest[:block] {
			at, value = append(at, p.at), append(value, p.value)
		}
		out = append(out, point{median(at), median(value)})
	}
	return out
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	if len(s) == 0 {
		return math.NaN()
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// theilSen fits a slope, in units per hour if times are in seconds.
func theilSen(points []point) (slope, low, high float64) {
	var slopes []float64
	for i, a := range points {
		for _, b := range points[i+1:] {
			if b.at != a.at {
				slopes = append(slopes, 3600*(b.value-a.value)/(b.at-a.at))
			}
		}
	}
	if len(slopes) == 0 {
		return math.NaN(), math.Inf(-1), math.Inf(1)
	}
	slices.Sort(slopes)
	within := confidence * math.Sqrt(kendallVariance(points))
	first := int(math.Floor((float64(len(slopes)) - within) / 2))
	last := int(math.Ceil((float64(len(slopes)) + within) / 2))
	low, high = math.Inf(-1), math.Inf(1) // with few points any slope is possible
	if first >= 1 {
		low = slopes[first-1]
	}
	if last < len(slopes) {
		high = slopes[last]
	}
	return median(slopes), low, high
}

// kendallVariance is the variance of Kendall's statistic without a trend, corrected for equal values.
func kendallVariance(points []point) float64 {
	n := float64(len(points))
	v := n * (n - 1) * (2*n + 5)
	equal := map[float64]float64{}
	for _, p := range points {
		equal[p.value]++
	}
	for _, t := range equal {
		v -= t * (t - 1) * (2*t + 5)
	}
	return v / 18
}

// slopeOf judges one series after the warm-up.
func slopeOf(m metric, samples []Sample, warm float64) Slope {
	var points []point
	var values []float64
	for _, s := range samples {
		if s.Second >= warm {
			points, values = append(points, point{s.Second, m.of(s)}), append(values, m.of(s))
		}
	}
	s := Slope{Metric: m.name, Level: median(values)}
	s.PerHour, s.Low, s.High = theilSen(medians(points, blockOf))
	last, _, _ := theilSen(medians(points[len(points)/2:], blockOf))
	s.Leak = s.Low > 0 && last >= s.Low/2
	return s
}
