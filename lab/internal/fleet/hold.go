// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Hold is a time in which a process believed to hold a lock, by the clock of the machine that all processes share.
type Hold struct {
	Who, Name string
	// Reads is set if other readers may hold the lock at the same time.
	Reads       bool
	From, Until time.Time
}

// Overlaps returns the pairs of holds that must not be at the same time.
func Overlaps(all []Hold) (found [][2]Hold) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(x, y Hold) int { return cmp.Or(strings.Compare(x.Name, y.Name), x.From.Compare(y.From)) })
	for i, x := range all {
		for _, y := range all[i+1:] {
			if y.Name != x.Name || !y.From.Before(x.Until) {
				break
			}
			if !x.Reads || !y.Reads {
				found = append(found, [2]Hold{x, y})
			}
		}
	}
	return found
}
