// SPDX-License-Identifier: Apache-2.0

package jobtimes

import (
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

const second = time.Second

func TestWithDefaults(t *testing.T) {
	got, err := Times{TTL: 15 * second, Drift: 0.01}.WithDefaults()
	if err != nil || got.Margin != 1500*time.Millisecond || got.Stop != 3*second {
		t.Errorf("defaults: %+v, %v", got, err)
	}
	for _, tt := range []struct {
		t    Times
		want string // of the error; empty if it works
	}{
		{Times{TTL: second}, ""},
		{Times{TTL: 15 * second, Stop: 4450 * time.Millisecond}, ""},
		{Times{TTL: 15 * second, Stop: 4510 * time.Millisecond}, "4.5s at most, or use --ttl 16s"},
		{Times{TTL: 15 * second, Stop: 30 * second}, "or use --ttl 101s"},
		{Times{TTL: 15 * second, Margin: 8 * second}, "at least half"},
		{Times{TTL: 15 * second, Margin: -1}, "positive"},
		{Times{TTL: -1}, "positive"},
		{Times{Stop: 1}, "positive"},
	} {
		tt.want = strings.ReplaceAll(tt.want, "101s", "1m41s")
		if tt.want == "" {
			if _, err := tt.t.WithDefaults(); err != nil {
				t.Errorf("%+v: %v", tt.t, err)
			}
			continue
		}
		if _, err := tt.t.WithDefaults(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.t, err, tt.want)
		}
	}
	// What the error proposes works.
	for stop := second; stop < 100*second; stop += 7 * second {
		bad := Times{TTL: 2 * second, Drift: 0.01, Stop: stop, Margin: 200 * time.Millisecond}
		proposal := Times{TTL: bad.needed(), Drift: 0.01, Stop: stop}
		if _, err := proposal.WithDefaults(); err != nil {
			t.Errorf("--stop-time %v: the proposal %v does not work: %v", stop, bad.needed(), err)
		}
	}
}

// TestNext walks the time of a lease that is not renewed in steps of a
// millisecond: TERM comes once, a stop time before the deadline, and KILL at it.
func TestNext(t *testing.T) {
	const stop = 3 * second
	termed, last := false, 20*second
	for left := 20 * second; ; {
		action, wait := Next(left, stop, termed)
		switch action {
		case Term:
			if termed || left > stop || last <= stop {
				t.Fatalf("TERM with %v left, the check before with %v", left, last)
			}
			termed = true
			continue
		case Kill:
			if left > 0 || !termed {
				t.Fatalf("KILL with %v left, termed %v", left, termed)
			}
			return
		}
		if wait <= 0 || wait > stop/4 && left-stop > stop/4 {
			t.Fatalf("with %v left it waits %v", left, wait)
		}
		last, left = left, left-wait
	}
}

func TestEnough(t *testing.T) {
	if Enough(3700*time.Millisecond, 3*second) || !Enough(4*second, 3*second) {
		t.Error("a command must have some time before it is stopped again")
	}
}

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
