// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/internal/enum"
)

// Severity is how bad a Finding is. Severities are in order: the higher, the worse.
// In text, JSON for one, they are the words that String returns.
type Severity uint8

const (
	// Note: good to know, or it could not be checked.
	Note Severity = iota
	// Warning: locks work, but fewer guarantees hold than a user may expect.
	Warning
	// Danger: locks do not work, or two may hold one.
	Danger
)

var severities = []string{"note", "warning", "danger"}

// String returns the severity in lower case, or its number if there is no such severity, as
// in severity(7).
func (s Severity) String() string {
	return enum.String("severity", s, severities[:]...)
}

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) {
	if int(s) >= len(severities) {
		return nil, fmt.Errorf("driver: unknown severity %d; the highest is %d, %v", uint8(s), uint8(Danger), Danger)
	}
	return []byte(s.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Severity) UnmarshalText(text []byte) error {
	i := slices.Index(severities, string(text))
	if i < 0 {
		return fmt.Errorf("driver: %q is not a severity; use one of %s", text, strings.Join(severities, ", "))
	}
	*s = Severity(i)
	return nil
}

// Finding is one thing that a store found about its servers when it was asked whether
// they are fit to keep locks. A store that can check them has the method
//
//	Check(ctx context.Context) ([]Finding, error)
//
// which writes nothing, and whose error means that a server could not be asked. It is
// not part of Store, see OpenedStore.
type Finding struct {
	// Severity is how bad it is.
	Severity Severity `json:"severity"`
	// Code names the kind of finding for programs: "eviction". The codes of a store
	// are stable; its documentation lists them.
	Code string `json:"code"`
	// Node is the address of the server; empty if it is about all, or there is one.
	Node string `json:"node,omitempty"`
	// Reason is what was found and why it matters.
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
