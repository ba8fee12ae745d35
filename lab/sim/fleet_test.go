// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// leftOver is a goroutine that never ends, by a name to find it by.
func leftOver(never chan struct{}) { <-never }

func TestLeftOverGoroutineIsFound(t *testing.T) {
	t.Setenv("GODEBUG", "tracebacklabels=1")
	err := inBubble(t, 4711, func() { go leftOver(make(chan struct{})) })
	if err == nil || !strings.Contains(err.Error(), "deadlock") || !strings.Contains(err.Error(), "leftOver") {
		t.Errorf("a goroutine was left over; the error is: %v", err)
	}
	if err := inBubble(t, 4712, func() { time.Sleep(time.Hour) }); err != nil {
		t.Errorf("nothing was left over; the error is: %v", err)
	}
}

func TestSpinIsFound(t *testing.T) {
	var p pulse
	must.OK(t, inBubble(t, 4713, func() {
		for range maxPulse {
			if p.beat() != nil {
				t.Error("refused too early")
			}
		}
		time.Sleep(time.Nanosecond)
		if p.beat() != nil || p.spun() {
			t.Error("refused after a pause")
		}
		for range maxPulse {
			p.beat()
		}
	}))
	if !p.spun() {
		t.Error("a client spun and was not found")
	}
}

func TestReportIsForProgramsAndPeople(t *testing.T) {
	s := Make(7)
	got := Violation{Checker: "stuck", What: "it is stuck", Events: []Event{{Kind: Called, Acq: 3, Name: "x"}}}.Report(s)
	for _, want := range []string{
		"VIOLATION checker=stuck seed=7\n", "it is stuck", "called    c0.0 #3 x exclusive",
		"go test ./lab/sim -run TestSchedules -sim.seed=7 -v\n", "-sim.fault='" + s.Faults() + "'",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}
}
