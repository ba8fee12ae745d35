// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Hold is a time in which a process believed to hold a lock.
type Hold struct {
	Who, Name   string
	From, Until time.Time
}

// Overlaps returns pairs of holds of one name at the same time: every hold with the one before it that ended last.
func Overlaps(all []Hold) (found [][2]Hold) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(x, y Hold) int { return cmp.Or(strings.Compare(x.Name, y.Name), x.From.Compare(y.From)) })
	for i := 1; i < len(all); i++ {
		before, h := all[i-1], all[i]
		if h.Name == before.Name && h.From.Before(before.Until) {
			found = append(found, [2]Hold{before, h})
			if before.Until.After(h.Until) {
				all[i].Until = before.Until
			}
		}
	}
	return found
}
