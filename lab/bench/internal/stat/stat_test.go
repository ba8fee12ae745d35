// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{7}, 7},
		{[]float64{3, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{1, 1, 1000}, 1},
		{[]float64{5, math.NaN(), 9, 7}, 7}, // not measured
	} {
		before := len(tt.values)
		first := tt.values[0]
		if got := Median(tt.values); got != tt.want {
			t.Errorf("Median(%v) = %v, want %v", tt.values, got, tt.want)
		}
		if len(tt.values) != before || tt.values[0] != first {
			t.Errorf("Median changed its argument: %v", tt.values)
		}
	}
	for _, none := range [][]float64{nil, {math.NaN()}} {
		if got := Median(none); !math.IsNaN(got) {
			t.Errorf("Median(%v) = %v, want NaN", none, got)
		}
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, tt := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 1, 100}, {hundred, 0, 1},
		{[]float64{5}, 0.99, 5}, {[]float64{1, 2}, 0.5, 1}, {[]float64{1, 2}, 0.51, 2},
	} {
		if got := Quantile(tt.values, tt.q); got != tt.want {
			t.Errorf("Quantile(%v) of %d values = %v, want %v", tt.q, len(tt.values), got, tt.want)
		}
	}
	if got := Quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("Quantile(nil) = %v, want NaN", got)
	}
}

// TestRatio: the machine was half as fast in the second repetition, which says
// nothing about a and b; the ratio of the medians would say 1.33.
func TestRatio(t *testing.T) {
	a, b := []float64{200, 100, 180}, []float64{100, 50, 150}
	if got := Ratio(a, b); got != 2 {
		t.Errorf("Ratio = %v, want 2", got)
	}
	missing := math.NaN()
	if got := Ratio([]float64{missing, 200, 2000}, []float64{10, 100, 1000}); got != 2 {
		t.Errorf("Ratio with one that was not measured = %v, want 2", got)
	}
	if got := Ratios([]float64{1, 2, 3}, []float64{1}); len(got) != 1 || got[0] != 1 {
		t.Errorf("Ratios of unequal length = %v, want [1]", got)
	}
}

func TestJain(t *testing.T) {
	for _, tt := range []struct {
		shares []float64
		want   float64
	}{
		{[]float64{5, 5, 5, 5}, 1},
		{[]float64{8, 0, 0, 0}, 0.25},
		{[]float64{1, 3}, 0.8},
	} {
		if got := Jain(tt.shares); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("Jain(%v) = %v, want %v", tt.shares, got, tt.want)
		}
	}
	if got := Jain([]float64{0, 0}); !math.IsNaN(got) {
		t.Errorf("Jain of nothing = %v, want NaN", got)
	}
}

func TestSpread(t *testing.T) {
	if got, want := Of([]float64{3, 9, 4}), (Spread{4, 3, 9}); got != want {
		t.Errorf("Of = %v, want %v", got, want)
	}
	if got, want := Of([]float64{3, math.NaN(), 4}), (Spread{3.5, 3, 4}); got != want {
		t.Errorf("Of = %v, want %v", got, want)
	}
	if got := Of(nil); !math.IsNaN(got.Median) || !math.IsNaN(got.Min) || !math.IsNaN(got.Max) {
		t.Errorf("Of(nil) = %v, want NaN", got)
	}
}

func TestBusiest(t *testing.T) {
	for _, tt := range []struct {
		shares []float64
		want   float64
	}{{[]float64{3, 3, 3}, 1}, {[]float64{0, 4, 0, 0}, 4}, {[]float64{1, 3}, 1.5}} {
		if got := Busiest(tt.shares); got != tt.want {
			t.Errorf("Busiest(%v) = %v, want %v", tt.shares, got, tt.want)
		}
	}
	if got := Busiest([]float64{0, 0}); !math.IsNaN(got) {
		t.Errorf("Busiest of nothing = %v", got)
	}
}

func TestLogSlope(t *testing.T) {
	for _, tt := range []struct {
		x, y []float64
		want float64
	}{
		{[]float64{1, 10, 100}, []float64{3, 3, 3}, 0},
		{[]float64{1, 10, 100}, []float64{2, 20, 200}, 1},
		{[]float64{1, 10, 100, 0}, []float64{9, math.NaN(), 90, 1}, 0.5},
		{[]float64{1}, []float64{1}, math.NaN()},
		{[]float64{5, 5}, []float64{1, 2}, math.NaN()},
	} {
		if got := LogSlope(tt.x, tt.y); !(math.Abs(got-tt.want) < 1e-9) && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
			t.Errorf("LogSlope(%v, %v) is %v, want %v", tt.x, tt.y, got, tt.want)
		}
	}
}
