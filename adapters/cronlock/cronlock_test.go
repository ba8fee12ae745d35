// SPDX-License-Identifier: Apache-2.0

package cronlock_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/adapters/cronlock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// every is a schedule at the multiples of a duration.
type every time.Duration

func (e every) Next(t time.Time) time.Time { return t.Truncate(time.Duration(e)).Add(time.Duration(e)) }

// relative is a schedule like cron's @every.
type relative time.Duration

func (r relative) Next(t time.Time) time.Time {
	return t.Add(time.Duration(r) - time.Duration(t.Nanosecond()))
}

// never is a schedule like that of February 30.
type never struct{}

func (never) Next(time.Time) time.Time { return time.Time{} }

// counted is a cron.FuncJob.
type counted func()

func (c counted) Run() { c() }

// TestOnceRunsAnOccurrenceOnce: a replica that is late fires for the same occurrence.
func TestOnceRunsAnOccurrenceOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		var runs int
		var reports []cronlock.Report
		replica := func() cronlock.Job {
			once, err := cronlock.Once[cronlock.Job](locktest.Client(t, store, nil), "report", every(time.Minute), &cronlock.Options{
				Report: func(r cronlock.Report) { reports = append(reports, r) },
			})
			must.OK(t, err)
			return once(counted(func() { runs++ }))
		}
		jobs := []cronlock.Job{replica(), replica(), replica()}
		time.Sleep(time.Until(every(time.Minute).Next(time.Now())))
		for range 3 {
			jobs[0].Run()
			time.Sleep(29 * time.Second)
			jobs[1].Run()
			time.Sleep(30 * time.Second)
			jobs[2].Run()
			time.Sleep(time.Second)
		}
		if runs != 3 {
			t.Errorf("%d runs of 3 occurrences", runs)
		}
		var outcomes []string
		for _, r := range reports {
			if r.Err != nil || r.Name != "report" || r.Result.Ran != (r.Result.Holder == nil) {
				t.Errorf("report %+v", r)
			}
			outcomes = append(outcomes, r.Result.String())
		}
		if got, want := strings.Join(outcomes, ", "), strings.TrimSuffix(strings.Repeat("ran, already ran, already ran, ", 3), ", "); got != want {
			t.Errorf("reported %s\nwant     %s", got, want)
		}
	})
}

// TestOccurrence: the last scheduled time, in UTC, however long ago it was.
func TestOccurrence(t *testing.T) {
	shanghai := time.FixedZone("CST", 8*3600)
	for _, tt := range []struct {
		schedule cronlock.Schedule
		at       time.Time
		want     string
	}{
		{every(time.Hour), time.Date(2026, 11, 16, 3, 0, 0, 0, time.UTC), "2026-11-16T03:00:00Z"},
		{every(time.Hour), time.Date(2026, 11, 16, 3, 59, 59, 999, time.UTC), "2026-11-16T03:00:00Z"},
		{every(time.Hour), time.Date(2026, 11, 16, 2, 59, 59, 999, time.UTC), "2026-11-16T02:00:00Z"},
		{every(time.Hour), time.Date(2026, 11, 16, 11, 0, 1, 0, shanghai), "2026-11-16T03:00:00Z"},
		{every(time.Second), time.Date(2026, 11, 16, 3, 0, 7, 5, time.UTC), "2026-11-16T03:00:07Z"},
		{every(24 * time.Hour), time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC), "2026-11-16T00:00:00Z"},
		{every(1000 * 24 * time.Hour), time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC), every(1000 * 24 * time.Hour).Next(time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC).Add(-1000 * 24 * time.Hour)).Format(time.RFC3339)},
	} {
		if got, err := cronlock.Occurrence(tt.schedule, tt.at); got != tt.want || err != nil {
			t.Errorf("%v, %v: %s, %v, want %s", tt.schedule, tt.at, got, err, tt.want)
		}
	}
}

// skipping is a schedule like that of cron where clocks are put forward by half an hour: in
// the hour before a scheduled time it returns the one after.
type skipping struct{}

func (skipping) Next(t time.Time) time.Time {
	next := every(24 * time.Hour).Next(t)
	if next.Sub(t) < time.Hour {
		next = every(24 * time.Hour).Next(next)
	}
	return next
}

// TestOccurrenceThatDependsOnTheMomentItIsAskedFor: cron fires for it, so it has a name.
func TestOccurrenceThatDependsOnTheMomentItIsAskedFor(t *testing.T) {
	midnight := time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)
	for _, late := range []time.Duration{0, time.Millisecond, time.Minute, 6 * time.Hour} {
		if got, err := cronlock.Occurrence(skipping{}, midnight.Add(late)); got != "2026-11-16T00:00:00Z" || err != nil {
			t.Errorf("%v late: %s, %v", late, got, err)
		}
	}
}

// TestScheduleThatCountsFromTheMomentIsRefused: whatever its length, and whenever it is asked.
func TestScheduleThatCountsFromTheMomentIsRefused(t *testing.T) {
	for _, d := range []time.Duration{2 * time.Second, 90 * time.Second, time.Hour, 24 * time.Hour, 1000 * time.Hour} {
		for _, after := range []time.Duration{0, 1, 500 * time.Millisecond, 7*time.Minute + 3} {
			if got, err := cronlock.Occurrence(relative(d), time.Date(2026, 11, 16, 3, 0, 0, 0, time.UTC).Add(after)); err == nil {
				t.Errorf("@every %v, %v after the hour: %s", d, after, got)
			}
		}
	}
}

// daily is a schedule at nine o'clock in the location of the time it is asked with, as a
// cron expression without CRON_TZ is.
type daily struct{}

func (daily) Next(t time.Time) time.Time {
	at := time.Date(t.Year(), t.Month(), t.Day(), 9, 0, 0, 0, t.Location())
	if !at.After(t) {
		at = at.AddDate(0, 0, 1)
	}
	return at
}

// TestOnceInALocation: the occurrence is that of the location in which cron fires.
func TestOnceInALocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokyo := time.FixedZone("JST", 9*3600)
		var got cronlock.Report
		once, err := cronlock.Once[cronlock.Job](locktest.Client(t, memstore.New(nil), nil), "report", daily{}, &cronlock.Options{
			Location: tokyo, Report: func(r cronlock.Report) { got = r },
		})
		must.OK(t, err)
		time.Sleep(time.Until(daily{}.Next(time.Now().In(tokyo))))
		want := time.Now().UTC().Format(time.RFC3339)
		once(counted(func() {})).Run()
		if got.Occurrence != want || got.Err != nil {
			t.Errorf("%+v, want %s", got, want)
		}
		if locktest.Panics(func() { time.Sleep(24 * time.Hour); once(counted(func() { panic("no disk") })).Run() }) == nil ||
			got.Err == nil || got.Result.String() != "failed" {
			t.Errorf("a panic is reported as %+v", got)
		}
	})
}

// TestOnceRefuses: what would run everywhere, or never, is refused when the schedule is made.
func TestOnceRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		without := locktest.Client(t, locktest.Caps(store, func(c *driver.Caps) { c.Hold = false }), nil)
		hourly := every(time.Hour)
		type stopper interface {
			cronlock.Job
			Stop()
		}
		for want, once := range map[string]func() error{
			"must be positive": func() error {
				_, err := cronlock.Once[cronlock.Job](c, "a", hourly, &cronlock.Options{Keep: -1})
				return err
			},
			"no occurrence in common": func() error { _, err := cronlock.Once[cronlock.Job](c, "a", relative(time.Hour), nil); return err },
			"no time in ten years":    func() error { _, err := cronlock.Once[cronlock.Job](c, "a", never{}, nil); return err },
			"cannot keep the mark":    func() error { _, err := cronlock.Once[cronlock.Job](without, "a", hourly, nil); return err },
			"write Once[cron.Job]":    func() error { _, err := cronlock.Once[stopper](c, "a", hourly, nil); return err },
		} {
			if err := once(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
}
