// SPDX-License-Identifier: Apache-2.0

// Package closest finds the word that was probably meant, for errors that name an
// unknown command, scheme or parameter.
package closest

import "fmt"

// Match returns the known word with the fewest single-letter edits from word, or "" if
// none is close: more than a third of the letters differ.
func Match(word string, known ...string) string {
	best, fewest := "", max(1, len(word)/3)+1
	for _, k := range known {
		if d := distance(word, k); d < fewest {
			best, fewest = k, d
		}
	}
	return best
}

// Hint returns ` (did you mean "namespace"?)` with the closest known word, or "".
func Hint(word string, known ...string) string {
	if m := Match(word, known...); m != "" {
		return fmt.Sprintf(" (did you mean %q?)", m)
	}
	return ""
}

// distance counts insertions, deletions, substitutions and swaps of neighbors (optimal
// string alignment): "namspace" and "namesapce" are both one edit away from "namespace".
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
