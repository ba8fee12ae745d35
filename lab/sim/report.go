// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"strings"
)

// Report says what was violated, in which schedule, and how to see it again.
// Its first line is for programs.
func (v Violation) Report(s *Schedule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "VIOLATION checker=%s seed=%d\n", v.Checker, s.Seed)
	for _, c := range Checkers {
		if c.Name == v.Checker {
			fmt.Fprintf(&b, "  must hold: %s\n", c.Property)
		}
	}
	fmt.Fprintf(&b, "  found: %s\n", v.What)
	for _, e := range v.Events {
		fmt.Fprintf(&b, "    %s\n", e)
	}
	replay := fmt.Sprintf("go test ./lab/sim -run TestSchedules -sim.seed=%d -v", s.Seed)
	fmt.Fprintf(&b, "  schedule: %s", s)
	fmt.Fprintf(&b, "  replay: %s\n", replay)
	fmt.Fprintf(&b, "  with other faults: %s -sim.fault='%s'\n", replay, s.Faults())
	return b.String()
}

// Lines returns all events of a history, one per line.
func (h *History) Lines() string {
	var b strings.Builder
	for n, e := range h.Events {
		fmt.Fprintf(&b, "%5d %s\n", n, e)
	}
	return b.String()
}
