// SPDX-License-Identifier: Apache-2.0

package jobtimes

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// TestPeriods: periods are counted from 1970, also those that a day does
// not divide.
func TestPeriods(t *testing.T) {
	for _, tt := range []struct {
		now, want string
		per       time.Duration
	}{
		{"1970-01-07T23:59:59Z", "1970-01-01T00:00:00Z", 7 * 24 * time.Hour},
		{"2026-11-15T08:00:00+01:00", "2026-11-12T00:00:00Z", 7 * 24 * time.Hour},
		{"2026-11-15T08:44:59.9Z", "2026-11-15T08:30:00Z", 15 * time.Minute},
		{"2026-11-15T00:30:00+01:00", "2026-11-14T00:00:00Z", 24 * time.Hour},
	} {
		now, err := time.Parse(time.RFC3339Nano, tt.now)
		must.OK(t, err)
		if got := PeriodName(PeriodStart(now, tt.per)); got != tt.want {
			t.Errorf("%s per %v: got %s, want %s", tt.now, tt.per, got, tt.want)
		}
	}
}
