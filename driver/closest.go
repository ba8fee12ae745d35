// SPDX-License-Identifier: Apache-2.0

package driver

import "strings"

// Closest returns the known word that was probably meant by an unknown one, for an error
// that suggests it: the only one that begins with word, or else the one with the
// fewest single-letter edits from word. It returns "" if more than about a third of the
// letters differ from every known word.
func Closest(word string, known ...string) string {
	if whole := longer(word, known); whole != "" {
		return whole
	}
	best, fewest := "", max(1, (len(word)+1)/3)+1
	for _, k := range known {
		if d := distance(word, k); d < fewest {
			best, fewest = k, d
		}
	}
	return best
}

// longer returns the known word that begins with word, if there is exactly one. It ignores
// a word of one or two letters, which says little about what was meant.
func longer(word string, known []string) (found string) {
	for _, k := range known {
		if len(word) > 2 && k != found && strings.HasPrefix(k, word) {
			if found != "" {
				return ""
			}
			found = k
		}
	}
	return found
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
