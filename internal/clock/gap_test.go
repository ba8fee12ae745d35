// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"testing"
	"time"
)

func TestWallClockThatWasSetBackHidesNoSuspend(t *testing.T) {
	for name, c := range map[string]struct {
		ahead []time.Duration
		want  time.Duration
	}{
		"nothing":           {[]time.Duration{0, 0}, 0},
		"slewed":            {[]time.Duration{time.Second, -time.Second, 0}, 0},
		"suspended":         {[]time.Duration{0, 5 * time.Minute, 5 * time.Minute}, 5 * time.Minute},
		"suspended twice":   {[]time.Duration{time.Minute, time.Minute, 3 * time.Minute}, 3 * time.Minute},
		"set back":          {[]time.Duration{0, -10 * time.Minute}, 0},
		"back, suspended":   {[]time.Duration{0, -10 * time.Minute, -5 * time.Minute}, 5 * time.Minute},
		"suspended, back":   {[]time.Duration{5 * time.Minute, 0, 0}, 5 * time.Minute},
		"short, many times": {[]time.Duration{1900 * time.Millisecond, 3800 * time.Millisecond}, 3800 * time.Millisecond},
	} {
		var g gap
		var got time.Duration
		for _, ahead := range c.ahead {
			got = g.see(ahead)
		}
		if got != c.want {
			t.Errorf("%s: %v suspended, want %v", name, got, c.want)
		}
	}
}
