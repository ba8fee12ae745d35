// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestNowCountsSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slept := time.Hour // before the start: does not count
		c := New(func() time.Duration { return slept })
		time.Sleep(time.Second)
		if got := c.Now(); got != Instant(time.Second) {
			t.Fatalf("after 1s awake Now is %v", time.Duration(got))
		}
		slept += time.Minute
		if got := c.Sent(); got != Instant(time.Second) {
			t.Fatalf("Sent saw a suspend that was not noticed: %v", time.Duration(got))
		}
		want := Instant(time.Minute + time.Second)
		if got := c.Now(); got != want {
			t.Fatalf("after a suspend of 1m Now is %v, want %v", time.Duration(got), time.Duration(want))
		}
		if got := c.Sent(); got != want {
			t.Fatalf("after Now noticed it, Sent is %v, want %v", time.Duration(got), time.Duration(want))
		}
	})
}

// A suspend moves the wall clock in the same step: Recent sees it in the first
// moment after the resume, however lately it asked.
func TestRecentSeesASuspendAtOnce(t *testing.T) {
	for name, ahead := range map[string]bool{"by the wall clock": true, "without one": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var slept time.Duration
				c := New(func() time.Duration { return slept })
				if ahead {
					c.ahead = func(time.Time) time.Duration { return slept }
				}
				c.Now()
				slept = time.Minute
				if got := c.Recent(); got < Instant(time.Minute) {
					t.Fatalf("right after the resume Recent is %v, without the suspend", time.Duration(got))
				}
			})
		})
	}
}

// What the wall clock does not show is seen soon, and asking is rare.
func TestRecentAsksRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept time.Duration
		asked := 0
		c := New(func() time.Duration { asked++; return slept })
		c.ahead = func(time.Time) time.Duration { return 0 }
		c.Now()
		asked = 0
		for range 100 {
			c.Recent()
		}
		if asked != 0 {
			t.Errorf("asked the operating system %d times", asked)
		}
		slept = time.Minute
		time.Sleep(recentFor)
		if got := c.Recent(); got < Instant(time.Minute) {
			t.Fatalf("%v after the resume Recent is %v, without the suspend", recentFor, time.Duration(got))
		}
	})
}

func TestNowNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slept := time.Minute
		c := New(func() time.Duration { return slept })
		slept = 2 * time.Minute
		before := c.Now()
		slept = 90 * time.Second // a reading that was disturbed
		if got := c.Now(); got < before {
			t.Fatalf("Now went from %v back to %v", time.Duration(before), time.Duration(got))
		}
	})
}

func TestTimeIsForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(func() time.Duration { return 0 })
		want := time.Now().Add(time.Hour)
		if got := c.Time(c.Now().Add(time.Hour)); !got.Equal(want) {
			t.Fatalf("an hour from now is %v, want %v", got, want)
		}
	})
}

// The machine is not suspended while the test runs, however busy it is; a
// difference between two readings would lose leases for nothing.
func TestBusyMachineIsNotSuspended(t *testing.T) {
	first := machineSuspended()
	for range 100_000 {
		if got := machineSuspended(); got-first > time.Millisecond {
			t.Fatalf("suspended grew by %v on a running machine", got-first)
		}
	}
}

func BenchmarkNow(b *testing.B) {
	c := New(nil)
	for b.Loop() {
		c.Now()
	}
}

func BenchmarkSent(b *testing.B) {
	c := New(nil)
	for b.Loop() {
		c.Sent()
	}
}

func TestFakeClockStandsStillWhileSuspended(t *testing.T) {
	awake, suspended := time.Hour, 5*time.Second
	c := NewFake(func() time.Duration { return awake }, func() time.Duration { return suspended })
	start := c.Now()
	if d := c.Now().Sub(start); d != 0 {
		t.Errorf("%v passed while nothing did", d)
	}
	suspended += time.Minute
	if d := c.Sent().Sub(start); d != 0 {
		t.Errorf("Sent noticed %v of a suspend that no Now has seen", d)
	}
	if d := c.Now().Sub(start); d != time.Minute {
		t.Errorf("%v passed during a suspend of 1m", d)
	}
	awake += time.Second
	if d := c.Sent().Sub(start); d != time.Minute+time.Second {
		t.Errorf("%v passed, want 1m1s", d)
	}
}

func BenchmarkRecent(b *testing.B) {
	c := New(nil)
	for b.Loop() {
		c.Recent()
	}
}
