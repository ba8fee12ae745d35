// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/cronlock"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/robfig/cron/v3"
)

var everySecond = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

func init() {
	fire := func(ctx context.Context, r *replica, wrap func(cron.Schedule, cron.Job) (cron.Job, error)) error {
		schedule, err := everySecond.Parse("* * * * * *")
		if err != nil {
			return err
		}
		job, err := wrap(schedule, cron.FuncJob(func() {
			occurrence, err := cronlock.Occurrence(schedule, time.Now())
			r.note("%s %v", occurrence, err)
		}))
		if err != nil {
			return err
		}
		c := cron.New()
		c.Schedule(schedule, job)
		c.Start()
		<-ctx.Done()
		<-c.Stop().Done()
		return nil
	}
	roles["cron once"] = func(ctx context.Context, r *replica) error {
		return fire(ctx, r, func(schedule cron.Schedule, job cron.Job) (cron.Job, error) {
			once, err := cronlock.Once[cron.Job](r.client, "job", schedule, nil)
			if err != nil {
				return nil, err
			}
			return cron.NewChain(once).Then(job), nil
		})
	}
	roles["cron bare"] = func(ctx context.Context, r *replica) error {
		return fire(ctx, r, func(_ cron.Schedule, job cron.Job) (cron.Job, error) { return job, nil })
	}
}

// seconds is how many occurrences there were from the first run to the last. A run that a busy machine delays to the next second
// has the name of that one, and leaves a gap before.
func seconds(t *testing.T, runs []ran) int {
	t.Helper()
	var first, last time.Time
	for _, r := range runs {
		text, _, _ := strings.Cut(r.what, " ")
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return int(last.Sub(first)/time.Second) + 1
}

// TestCronOnce: three replicas run each second once. Without the wrapper each of them does.
func TestCronOnce(t *testing.T) {
	measure := func(role string) (duplicates int) {
		s := newSite(t)
		for range 3 {
			s.start(role, 0, "")
		}
		seen := map[string]bool{}
		runs := s.await(9)
		for _, r := range runs {
			seen[r.what] = true
		}
		return max(0, len(runs)-max(len(seen), seconds(t, runs)))
	}
	twice := measure("cron once")
	if twice > 0 {
		t.Errorf("%d occurrences ran twice", twice)
	}
	proved(t, "robfig/cron", twice)
	of := measure("cron bare")
	withoutAdapter(of)
	t.Logf("without the wrapper: %d duplicates", of)
}

// TestCronOccurrences: the occurrences of cron expressions over months, time zones and the
// change to daylight saving time and back.
func TestCronOccurrences(t *testing.T) {
	for _, tt := range []struct {
		spec, at, want string
	}{
		{"0 3 * * *", "2026-11-16T12:00:00Z", "2026-11-16T03:00:00Z"},
		{"0 12 * * *", "2026-11-16T12:00:00Z", "2026-11-16T12:00:00Z"},
		{"0 12 * * *", "2026-11-16T11:59:59Z", "2026-11-15T12:00:00Z"},
		{"0 0 1 * *", "2026-03-31T23:59:59Z", "2026-03-01T00:00:00Z"},
		{"0 0 31 * *", "2026-07-01T00:00:00Z", "2026-05-31T00:00:00Z"},
		{"0 0 29 2 *", "2026-11-16T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"0 9 * * MON-FRI", "2026-11-15T12:00:00Z", "2026-11-13T09:00:00Z"},
		{"CRON_TZ=Asia/Shanghai 0 3 * * *", "2026-11-16T00:00:00Z", "2026-11-15T19:00:00Z"},
		// New York: at 2:00 the clock goes to 3:00, so 2:30 does not exist on March 8.
		{"CRON_TZ=America/New_York 30 2 * * *", "2026-03-08T20:00:00Z", "2026-03-07T07:30:00Z"},
		{"CRON_TZ=America/New_York 30 3 * * *", "2026-03-08T20:00:00Z", "2026-03-08T07:30:00Z"},
		// In Berlin the hour from 2:00 comes twice on October 25, and cron fires in both.
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-25T00:59:00Z", "2026-10-25T00:30:00Z"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-25T12:00:00Z", "2026-10-25T01:30:00Z"},
		{"CRON_TZ=Europe/Berlin 0 4 * * *", "2026-10-25T12:00:00Z", "2026-10-25T03:00:00Z"},
		{"CRON_TZ=Europe/Berlin 0 4 * * *", "2026-10-24T12:00:00Z", "2026-10-24T02:00:00Z"},
	} {
		schedule, err := cron.ParseStandard(tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := cronlock.Occurrence(schedule, at); got != tt.want || err != nil {
			t.Errorf("%s at %s: %s, %v, want %s", tt.spec, tt.at, got, err, tt.want)
		}
	}
	c, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	schedule, err := cron.ParseStandard("@every 1h")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cronlock.Once[cron.Job](c, "job", schedule, nil); err == nil {
		t.Error("@every was not refused")
	}
}
