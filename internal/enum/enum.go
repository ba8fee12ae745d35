// SPDX-License-Identifier: Apache-2.0

// Package enum prints the values of small enumerations. A value out of range prints as
// its number: a text for a log must not end the program.
package enum

import "fmt"

// String returns the name of v, or kind(v) if v has none.
func String[T ~uint8](kind string, v T, names ...string) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(v))
}
