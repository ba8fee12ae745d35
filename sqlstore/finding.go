// SPDX-License-Identifier: Apache-2.0

package sqlstore

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

// Finding is one thing that Check found about the database.
type Finding struct {
	// Severity is how bad it is.
	Severity Severity
	// Code names the kind of finding for programs: "fsync". Codes are stable.
	Code string
	// Reason says what is so and why it matters.
	Reason string
	// Fix is the setting to change.
	Fix string
}

// String returns the finding as one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s (%s); %s", f.Severity, f.Reason, f.Code, f.Fix)
}
