// SPDX-License-Identifier: Apache-2.0

package vote

import (
	"slices"
	"time"
)

// Skews returns how far each clock is from the median of all, and how far the two
// most distant ones are apart. With no clock there is nothing to say.
func Skews(offsets []time.Duration) (from []time.Duration, spread time.Duration) {
	if len(offsets) == 0 {
		return nil, 0
	}
	sorted := slices.Clone(offsets)
	slices.Sort(sorted)
	median := sorted[len(sorted)/2]
	from = make([]time.Duration, len(offsets))
	for i, o := range offsets {
		from[i] = o - median
	}
	return from, sorted[len(sorted)-1] - sorted[0]
}

// Bounds of the distance between clocks, as shares of the quarantine.
const (
	// alarmShare of the quarantine is worth an alarm.
	alarmShare = 10
	// countShare of the quarantine from the median and a node does not count. Two
	// nodes that count are then less than a quarantine apart, which is what token
	// order over a data loss needs.
	countShare = 2
)

// Alarming reports whether clocks that are so far apart are worth an alarm.
func Alarming(spread, quarantine time.Duration) bool { return spread > quarantine/alarmShare }

// Counts reports whether a node whose clock is so far from the median counts.
func Counts(from, quarantine time.Duration) bool { return max(from, -from) < quarantine/countShare }
