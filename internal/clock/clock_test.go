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
			t.Fatalf("Sent saw a suspend that nobody noticed: %v", time.Duration(got))
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

func TestRecentSeesASuspendSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept time.Duration
		c := New(func() time.Duration { return slept })
		c.Now()
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
