// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"testing"
	"time"
)

// TestPollPause: pauses grow, are bounded, and are longer further back.
func TestPollPause(t *testing.T) {
	for place := range 30 {
		var last time.Duration
		for polls := range 120 {
			d := pollPause(polls, place, 0, 0, 0)
			if d < last || d < shortestPause/2 || d > longestPause {
				t.Fatalf("poll %d at place %d pauses %v after %v", polls, place, d, last)
			}
			last = d
		}
	}
	if pollPause(0, 5, 0, 0, 0) <= pollPause(0, 0, 0, 0, 0.99) {
		t.Error("those further back poll as often as the first")
	}
	if d := pollPause(0, 10, 4*time.Millisecond, 0, 0.5); d < 20*time.Millisecond || d > 40*time.Millisecond {
		t.Errorf("behind ten claims of 4ms each it pauses %v", d)
	}
	if d := pollPause(0, 60, time.Minute, 0, 0.5); d > longestPause {
		t.Errorf("at a slow pace it pauses %v", d)
	}
}

// TestPollPauseOfAStillLock: the longer a lock stays held, the less often it is polled, most of
// all by claims that do not get it next. A handoff is noticed a tenth of that time late at most.
func TestPollPauseOfAStillLock(t *testing.T) {
	for _, tt := range []struct {
		place       int
		still, want time.Duration
	}{
		{0, 500 * time.Millisecond, longestPause}, {0, 4 * time.Second, 200 * time.Millisecond}, {0, time.Hour, longestStillFirst},
		{9, 300 * time.Millisecond, longestPause}, {9, 4 * time.Second, 400 * time.Millisecond}, {60, time.Hour, longestStill},
		{2, time.Hour, 2 * longestStillFirst},
	} {
		if d := pollPause(1000, tt.place, 0, tt.still, 0.5); d != tt.want {
			t.Errorf("place %d of a lock that was still for %v: %v, want %v", tt.place, tt.still, d, tt.want)
		}
	}
	if d := pollPause(0, 0, 0, time.Hour, 0.5); d != shortestPause {
		t.Errorf("the first poll after a handoff comes after %v", d)
	}
}

// TestListenAfter: a claim listens at once unless it is far from the front of a queue that
// moves quickly, and well before it is granted.
func TestListenAfter(t *testing.T) {
	for _, tt := range []struct {
		place int
		pace  time.Duration
		want  time.Duration
	}{
		{60, 0, 0}, {60, time.Second, 0}, {farFromFront, time.Millisecond, 0}, {0, time.Millisecond, 0},
		{nearFront + 60, 3 * time.Millisecond, 150 * time.Millisecond}, {5000, 3 * time.Millisecond, longestRest},
	} {
		if d := listenAfter(tt.place, tt.pace); d != tt.want {
			t.Errorf("place %d at a pace of %v: %v, want %v", tt.place, tt.pace, d, tt.want)
		}
	}
}

// TestPace: a slow handoff is not taken for the pace of the next ones, and a quick one counts
// at once.
func TestPace(t *testing.T) {
	if p := paceOf(time.Minute, 1); p != 0 {
		t.Errorf("a minute for one handoff is the pace %v", p)
	}
	if p := paceOf(30*time.Millisecond, 10); p != 3*time.Millisecond {
		t.Errorf("10 handoffs in 30ms are the pace %v", p)
	}
	for _, tt := range []struct{ old, seen, want time.Duration }{{0, 8, 8}, {8, 4, 4}, {8, 16, 10}} {
		if p := meanPace(tt.old, tt.seen); p != tt.want {
			t.Errorf("%v after %v is %v, want %v", tt.seen, tt.old, p, tt.want)
		}
	}
}
