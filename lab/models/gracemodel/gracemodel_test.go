// SPDX-License-Identifier: Apache-2.0

package gracemodel

import "testing"

// scenes are small fleets. TTLs are 1 to 3 s, and max_ttl is what the fleet declares.
var scenes = []Scene{
	{Name: "all ask, everything is lost", Ticks: 9, Losses: 2, Flush: true, Processes: []Process{{TTL: 2, Max: 2, Asks: true}, {TTL: 1, Max: 2, Asks: true}}},
	{Name: "all ask, failover", Ticks: 6, Losses: 1, Failover: true, Processes: []Process{{TTL: 2, Max: 2, Asks: true}, {TTL: 1, Max: 2, Asks: true, Later: true}},
		Shows: []Rule{Declared}},
	{Name: "rolling, failover", Ticks: 6, Losses: 1, Failover: true, Processes: []Process{{TTL: 2, Max: 2, Asks: true}, {TTL: 2, Max: 2}},
		Shows: []Rule{Property}},
	{Name: "rolling, everything is lost", Ticks: 7, Losses: 1, Flush: true, Processes: []Process{{TTL: 2, Max: 2, Asks: true}, {TTL: 2, Max: 2}},
		Shows: []Rule{Remembered}},
	{Name: "a stranger is first", Ticks: 7, Losses: 1, Flush: true, Processes: []Process{{TTL: 2, Max: 2, Asks: true}, {TTL: 2, Max: 2, Later: true}, {TTL: 2, Max: 2, Asks: true, Later: true}},
		Shows: []Rule{Rest, Newest}},
	{Name: "a stranger is first, failover", Ticks: 3, Losses: 2, Flush: true, Failover: true, Processes: []Process{{TTL: 2, Max: 2, Asks: true}, {TTL: 1, Max: 2, Later: true}},
		Shows: []Rule{Outdated}},
	{Name: "a stranger with a lower max_ttl is first, failover", Ticks: 5, Losses: 2, Flush: true, Failover: true, Shows: []Rule{Outdated},
		Processes: []Process{{TTL: 3, Max: 3, Asks: true}, {TTL: 1, Max: 1, Asks: true, Later: true}}},
	{Name: "max_ttl is raised, failover", Ticks: 6, Losses: 1, Failover: true, Processes: []Process{{TTL: 2, Max: 2, Asks: true}, {TTL: 1, Max: 1, Asks: true, Later: true}},
		Shows: []Rule{Highest}},
	{Name: "a stranger with a lower max_ttl is first", Ticks: 5, Losses: 1, Flush: true, Shows: []Rule{Rest},
		Processes: []Process{{TTL: 3, Max: 3, Asks: true}, {TTL: 1, Max: 1, Asks: true, Later: true}, {TTL: 1, Max: 3, Asks: true, Later: true}}},
	{Name: "max_ttl is raised, everything is lost", Ticks: 8, Losses: 1, Flush: true, Processes: []Process{{TTL: 2, Max: 2, Asks: true}, {TTL: 1, Max: 1, Asks: true}},
		Shows: []Rule{Known}},
	{Name: "the replaced server serves on", Ticks: 8, Losses: 1, Failover: true, Serves: 2, Processes: []Process{{TTL: 2, Max: 4, Asks: true}, {TTL: 1, Max: 4, Asks: true}},
		Shows: []Rule{Margin}},
}

// TestGraceRulesAreEnoughAndNeeded asserts both directions.
func TestGraceRulesAreEnoughAndNeeded(t *testing.T) {
	shown := map[Rule]bool{}
	for _, s := range scenes {
		r := Search(s, 0)
		if r.Violation != "" {
			t.Errorf("%s: with all rules: %s: %q", s.Name, r.Violation, r.Steps)
		}
		t.Logf("%s: %d states", s.Name, r.States)
		for _, off := range s.Shows {
			shown[off] = true
			r := Search(s, off)
			if r.Violation == "" {
				t.Errorf("%s: without %v nothing was found in %d states", s.Name, off, r.States)
			}
			t.Logf("%s: without %v: %s: %q", s.Name, off, r.Violation, r.Steps)
		}
	}
	for off := Rule(1); off < rules; off++ {
		if !shown[off] {
			t.Errorf("no scene shows that the rule %v is needed", off)
		}
	}
}
