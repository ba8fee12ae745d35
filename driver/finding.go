// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"slices"
	"strings"
)

// Severity says how bad a Finding is. Severities are in order: the higher, the worse.
// In text, JSON for one, they are the words that String returns.
type Severity uint8

const (
	// Note: good to know, or it could not be checked.
	Note Severity = iota
	// Warning: locks work, but less is promised, or less well, than one may think.
	Warning
	// Danger: locks do not work, or two may hold one.
	Danger
)

var severities = []string{"note", "warning", "danger"}

// String returns the severity in lower case, and the number of one that does not exist,
// as in severity(7): a message about a mistake must not be the next.
func (s Severity) String() string {
	if int(s) >= len(severities) {
		return fmt.Sprintf("severity(%d)", uint8(s))
	}
	return severities[s]
}

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) {
	if int(s) >= len(severities) {
		return nil, fmt.Errorf("driver: there is no severity %d; the worst is %d, %v", uint8(s), uint8(Danger), Danger)
	}
	return []byte(s.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Severity) UnmarshalText(text []byte) error {
	i := slices.Index(severities, string(text))
	if i < 0 {
		return fmt.Errorf("driver: %q is no severity; it is one of %s", text, strings.Join(severities, ", "))
	}
	*s = Severity(i)
	return nil
}

// Finding is one thing that a store found about its engine when it was asked whether
// that is fit to keep locks. A store that can tell has the method
//
//	Check(ctx context.Context) ([]Finding, error)
//
// which writes nothing, and whose error says that the engine could not be asked. It is
// no part of Store: what wraps a store (a quorum, shards, an injector of faults) has no
// one engine to ask.
type Finding struct {
	// Severity is how bad it is.
	Severity Severity `json:"severity"`
	// Code names the kind of finding for programs: "eviction". The codes of a store
	// are stable; its documentation lists them.
	Code string `json:"code"`
	// Node is the address of the server; empty if it is about all, or there is one.
	Node string `json:"node,omitempty"`
	// Reason says what is so and why it matters.
	Reason string `json:"reason"`
	// Fix is what to change; it may be empty.
	Fix string `json:"fix,omitempty"`
}

// String returns the finding as one line.
func (f Finding) String() string {
	line := fmt.Sprintf("%s: %s (%s)", f.Severity, f.Reason, f.Code)
	if f.Node != "" {
		line = f.Node + ": " + line
	}
	if f.Fix != "" {
		line += "; " + f.Fix
	}
	return line
}
