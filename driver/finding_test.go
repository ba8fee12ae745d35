// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestFindingAsText: a finding is one line for people and an object for programs, and
// what is not known is left out of both.
func TestFindingAsText(t *testing.T) {
	for _, tt := range []struct {
		finding    Finding
		line, json string
	}{
		{Finding{Danger, "eviction", "127.0.0.1:6379", "it throws locks away", "maxmemory-policy noeviction"},
			"127.0.0.1:6379: danger: it throws locks away (eviction); maxmemory-policy noeviction",
			`{"severity":"danger","code":"eviction","node":"127.0.0.1:6379","reason":"it throws locks away","fix":"maxmemory-policy noeviction"}`},
		{Finding{Severity: Warning, Code: "clock", Reason: "its clock is off", Fix: "run a time service"},
			"warning: its clock is off (clock); run a time service",
			`{"severity":"warning","code":"clock","reason":"its clock is off","fix":"run a time service"}`},
		{Finding{Severity: Note, Code: "unchecked", Reason: "it could not be asked"},
			"note: it could not be asked (unchecked)",
			`{"severity":"note","code":"unchecked","reason":"it could not be asked"}`},
	} {
		if got := tt.finding.String(); got != tt.line {
			t.Errorf("got  %s\nwant %s", got, tt.line)
		}
		got, err := json.Marshal(tt.finding)
		if err != nil || string(got) != tt.json {
			t.Errorf("got  %s, %v\nwant %s", got, err, tt.json)
		}
		var back Finding
		if err := json.Unmarshal(got, &back); err != nil || back != tt.finding {
			t.Errorf("read back: %+v, %v", back, err)
		}
	}
}

// TestUnknownSeverities: a severity that does not exist is neither written nor read,
// and can be shown.
func TestUnknownSeverities(t *testing.T) {
	if text, err := (Danger + 1).MarshalText(); err == nil || !strings.Contains(err.Error(), "unknown severity 3") {
		t.Errorf("written: %q, %v", text, err)
	}
	if got := (Danger + 1).String() + " " + Severity(255).String(); got != "severity(3) severity(255)" {
		t.Errorf("shown as %s", got)
	}
	s := Warning
	if err := s.UnmarshalText([]byte("fatal")); err == nil || !strings.Contains(err.Error(), "note, warning, danger") || s != Warning {
		t.Errorf("read: %v, %v", s, err)
	}
	if Note >= Warning || Warning >= Danger {
		t.Error("severities are not in order")
	}
}
