// SPDX-License-Identifier: Apache-2.0

// Package stat is the arithmetic of the benchmarks: pure functions over numbers. NaN is
// a repetition that was not measured: it keeps its place in a list, and counts for
// nothing.
package stat

import (
	"math"
	"slices"
)

// known returns the numbers in order, without what was not measured.
func known(values []float64) []float64 {
	return slices.Sorted(func(yield func(float64) bool) {
		for _, v := range values {
			if !math.IsNaN(v) && !yield(v) {
				return
			}
		}
	})
}

// Median returns the middle value, or the mean of the two in the middle. It is
// NaN without values.
func Median(values []float64) float64 {
	s := known(values)
	if len(s) == 0 {
		return math.NaN()
	}
	mid := len(s) / 2
	if len(s)%2 == 1 {
		return s[mid]
	}
	return (s[mid-1] + s[mid]) / 2
}

// Quantile returns the smallest value that at least the share q of all values
// does not exceed. It is NaN without values.
func Quantile(values []float64, q float64) float64 {
	s := known(values)
	if len(s) == 0 {
		return math.NaN()
	}
	at := int(math.Ceil(q*float64(len(s)))) - 1
	return s[min(max(at, 0), len(s)-1)]
}

// Ratios divides the measurements of one repetition by each other: the load of the
// machine changes from one repetition to the next, and less within one. A ratio is
// NaN where one of the two was not measured.
func Ratios(a, b []float64) []float64 {
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	return ratios
}

// Ratio is the median of Ratios.
func Ratio(a, b []float64) float64 { return Median(Ratios(a, b)) }

// Jain is Jain's index of fairness: 1 if all have the same share, 1/n if one of n
// has everything. It is NaN if all shares are 0.
func Jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// Spread is a median with what it was between.
type Spread struct{ Median, Min, Max float64 }

// Of summarizes repetitions.
func Of(values []float64) Spread {
	s := known(values)
	if len(s) == 0 {
		return Spread{math.NaN(), math.NaN(), math.NaN()}
	}
	return Spread{Median(s), s[0], s[len(s)-1]}
}

// Busiest is the largest share divided by the mean: 1 if all are the same, n if one of n
// has everything. It is NaN if all shares are 0.
func Busiest(shares []float64) float64 {
	sum := 0.0
	for _, x := range shares {
		sum += x
	}
	return slices.Max(shares) * float64(len(shares)) / sum
}

// LogSlope is the slope of the line through the logarithms, by least squares: 0 if y does not depend on x, 1 if it is
// proportional to x. Points with a value that is not positive are left out; it is NaN with fewer than two others.
func LogSlope(x, y []float64) float64 {
	var n, sx, sy, sxx, sxy float64
	for i := range min(len(x), len(y)) {
		if !(x[i] > 0) || !(y[i] > 0) {
			continue
		}
		lx, ly := math.Log(x[i]), math.Log(y[i])
		n, sx, sy, sxx, sxy = n+1, sx+lx, sy+ly, sxx+lx*lx, sxy+lx*ly
	}
	if n < 2 || n*sxx == sx*sx {
		return math.NaN()
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
