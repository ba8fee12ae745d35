// SPDX-License-Identifier: Apache-2.0

// Package occurrence names the stretches of time in each of which a job runs once.
package occurrence

import (
	"strings"
	"time"
)

// KeepFactor is how many stretches the mark of a run stays: no replica is that late.
const KeepFactor = 2

// Start is the beginning of the stretch that an instant is in. All stretches are counted
// from the beginning of 1970 in UTC: time.Truncate would count from that of the year 1,
// which begins a week on a Monday and not on a Thursday.
func Start(now time.Time, per time.Duration) time.Time {
	return now.Add(-time.Duration(now.UnixNano() % int64(per))).UTC()
}

// Name is the stretch that begins at start.
func Name(start time.Time) string { return start.Format(time.RFC3339) }

// Lock is the lock of a run, as the method Once of a client names it.
func Lock(job string, start time.Time) string { return escaper.Replace(job) + "@" + Name(start) }

var escaper = strings.NewReplacer("%", "%25", "@", "%40")
