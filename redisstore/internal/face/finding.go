// SPDX-License-Identifier: Apache-2.0

package face

import "fmt"

// Severity says how bad a finding is.
type Severity uint8

const (
	// Note: good to know, or it could not be checked.
	Note Severity = iota
	// Warning: locks work, but less is promised than one may think.
	Warning
	// Danger: locks do not work, or two may hold one.
	Danger
)

// String returns the severity in lower case.
func (s Severity) String() string { return [...]string{"note", "warning", "danger"}[s] }

// codes are the codes of all findings. They are stable.
var codes = []string{
	"cluster-client", "clock", "commands-forbidden", "eviction", "eviction-unchecked", "info-forbidden",
	"min-replicas", "permissions-unchecked", "proxy", "replica", "replicas-without-grace", "run-id", "unchecked", "version",
	"version-unchecked",
}

// Finding is one thing that Check found about a server.
type Finding struct {
	// Severity is how bad it is.
	Severity Severity
	// Code names the kind of finding for programs: "eviction". Codes are stable.
	Code string
	// Node is the address of the server.
	Node string
	// Reason says what is so and why it matters.
	Reason string
	// Fix is the setting to change.
	Fix string
}

// String returns the finding as one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s (%s); %s", f.Node, f.Severity, f.Reason, f.Code, f.Fix)
}
