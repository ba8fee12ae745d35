// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/adapters/cronlock"
	"github.com/robfig/cron/v3"
)

// changes returns the moments in a year when the offset of a location changes, to the hour.
func changes(year int, loc *time.Location) (at []time.Time) {
	t := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	_, before := t.In(loc).Zone()
	for ; t.Year() == year; t = t.Add(time.Hour) {
		if _, now := t.In(loc).Zone(); now != before {
			at, before = append(at, t), now
		}
	}
	return at
}

// TestCronOccurrencesAroundSummerTime: in some locations the time for which cron fires on the
// day of a change depends on the moment at which its schedule was asked. The occurrence is the
// time for which it fires, and it is never refused.
func TestCronOccurrencesAroundSummerTime(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/Havana", "Asia/Beirut", "Africa/Cairo",
		"Asia/Tehran", "Asia/Gaza", "Australia/Lord_Howe", "Pacific/Apia"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Skip("no time zones:", err)
		}
		for _, spec := range []string{"0 0 * * *", "30 0 * * *", "30 1 * * *", "0 2 * * *", "30 2 * * *", "0 * * * *", "*/15 * * * *", "30 1 * * 0", "45 0 * * 6,0"} {
			schedule, err := cron.ParseStandard(spec)
			if err != nil {
				t.Fatal(err)
			}
			for _, year := range []int{2010, 2024} {
				for _, change := range changes(year, loc) {
					from := change.In(loc).Add(-48 * time.Hour)
					for next := schedule.Next(from); next.Before(change.Add(48 * time.Hour)); next = schedule.Next(next) {
						for _, late := range []time.Duration{0, 20 * time.Millisecond, 40 * time.Second} {
							got, err := cronlock.Occurrence(schedule, next.Add(late))
							if want := next.UTC().Format(time.RFC3339); err != nil || got != want {
								t.Errorf("%s %q fires for %v, %v late: %q, %v", zone, spec, next, late, got, err)
							}
						}
					}
				}
			}
		}
	}
}
