// SPDX-License-Identifier: Apache-2.0

package jobtimes

import (
	"strings"
	"time"
)

// KeepFactor is how many periods the mark of a run stays: no replica is that late.
const KeepFactor = 2

// PeriodStart is the beginning of the period that an instant is in. All periods are counted
// from the beginning of 1970 in UTC: time.Truncate would count from that of the year 1,
// which begins a week on a Monday and not on a Thursday.
func PeriodStart(now time.Time, per time.Duration) time.Time {
	return now.Add(-time.Duration(now.UnixNano() % int64(per))).UTC()
}

// PeriodName is the period that begins at start.
func PeriodName(start time.Time) string { return start.Format(time.RFC3339) }

// PeriodLock is the lock of a run, as the method Once of a client names it.
func PeriodLock(job string, start time.Time) string {
	return escaper.Replace(job) + "@" + PeriodName(start)
}

var escaper = strings.NewReplacer("%", "%25", "@", "%40")
