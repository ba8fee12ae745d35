// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/jobtimes"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/lockfeed"
)

var now = time.Date(2026, 11, 16, 10, 0, 0, 0, time.UTC)

func held(age time.Duration) fencelock.Holder { return fencelock.Holder{Age: age} }

// input has locks as a poll two seconds ago saw them.
func input(watches []string, locks ...fencelock.Status) *Input {
	all, err := ParseAll(watches)
	if err != nil {
		panic(err)
	}
	at := now.Add(-2 * time.Second)
	return &Input{Watches: all, Sums: &Sums{}, Lists: true, Sees: func(string) bool { return true }, Now: now, Polls: lockfeed.Polls{Count: 3, Failed: 1},
		State: lockfeed.State{Snapshot: &lockfeed.Snapshot{At: at, Locks: locks, Troubled: map[string]bool{"deploy/b": true}}, Ended: at, Took: time.Second}}
}

func lines(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, "\n"+w+"\n") {
			t.Errorf("no line %q in\n%s", w, text)
		}
	}
}

// TestSumsOfAPrefix: a prefix has one series, with the oldest and the sums of its locks.
func TestSumsOfAPrefix(t *testing.T) {
	in := input([]string{"held=10m deploy/*", "deploy/a", "deployed", "free"},
		fencelock.Status{Name: "deploy", Holders: []fencelock.Holder{held(time.Hour)}},
		fencelock.Status{Name: "deploy/a", Holders: []fencelock.Holder{held(time.Minute), {Kept: true, Age: time.Hour}}, Waiting: 7, Waiters: []fencelock.Waiter{{Age: 5 * time.Second}, {Age: time.Second}}},
		fencelock.Status{Name: "deploy/b", Holders: []fencelock.Holder{held(3 * time.Minute)}, Waiting: 1, Waiters: []fencelock.Waiter{{Age: 8 * time.Second}}},
		fencelock.Status{Name: "deployed", Holders: []fencelock.Holder{held(time.Second)}})
	text := Text(in)
	lines(t, text, `fencelock_lock_holders{lock="deploy/*"} 2`, `fencelock_lock_waiters{lock="deploy/*"} 8`, `fencelock_lock_held_seconds{lock="deploy/*"} 182`,
		`fencelock_lock_waiting_seconds{lock="deploy/*"} 10`, `fencelock_lock_not_renewed{lock="deploy/*"} 1`, `fencelock_lock_held_limit_seconds{lock="deploy/*"} 600`,
		`fencelock_lock_holders{lock="deploy/a"} 1`, `fencelock_lock_held_seconds{lock="deploy/a"} 62`, `fencelock_lock_held_seconds{lock="deployed"} 3`,
		`fencelock_lock_held_seconds{lock="free"} 0`, `fencelock_locks_held 4`, `fencelock_polls_total 3`, `fencelock_poll_failures_total 1`)
	if strings.Contains(text, `"deploy"`) || strings.Contains(text, "waiting_limit") {
		t.Errorf("more than was asked for:\n%s", text)
	}
}

// TestJobs: whether a job has run is read from the marks that its runs leave.
func TestJobs(t *testing.T) {
	mark := func(job string, start time.Time) fencelock.Status {
		return fencelock.Status{Name: jobtimes.PeriodLock(job, start), Holders: []fencelock.Holder{{Kept: true}}}
	}
	today, yesterday := jobtimes.PeriodStart(now, 24*time.Hour), jobtimes.PeriodStart(now.Add(-24*time.Hour), 24*time.Hour)
	for _, tt := range []struct {
		what, watch   string
		marks         []fencelock.Status
		begun, missed string
	}{
		{"ran twice", "every=24h by=4h job", []fencelock.Status{mark("job", yesterday), mark("job", today)}, "1", "0"},
		{"not today, in time", "every=24h by=20h job", []fencelock.Status{mark("job", yesterday)}, "0", "0"},
		{"not today, late", "every=24h by=4h job", []fencelock.Status{mark("job", yesterday)}, "0", "1"},
		{"not today, any time", "every=24h job", []fencelock.Status{mark("job", yesterday)}, "0", "0"},
		{"not yesterday", "every=24h job", []fencelock.Status{mark("job", today)}, "1", "1"},
		{"another job", "every=24h job", []fencelock.Status{mark("jobs", yesterday), mark("jobs", today)}, "0", "1"},
		{"a name with @", "every=24h job@eu", []fencelock.Status{mark("job@eu", yesterday), mark("job@eu", today)}, "1", "0"},
	} {
		text := Text(input([]string{tt.watch}, tt.marks...))
		label := `{lock="` + strings.Fields(tt.watch)[len(strings.Fields(tt.watch))-1] + `"} `
		if !strings.Contains(text, "fencelock_job_begun"+label+tt.begun) || !strings.Contains(text, "fencelock_job_missed"+label+tt.missed) {
			t.Errorf("%s: got\n%s", tt.what, text)
		}
	}
}

// TestJobIsJudgedByThePoll: a period that began after the last poll has no marks yet.
func TestJobIsJudgedByThePoll(t *testing.T) {
	in := input([]string{"every=24h job"})
	midnight := jobtimes.PeriodStart(now, 24*time.Hour)
	for _, start := range []time.Time{midnight.Add(-48 * time.Hour), midnight.Add(-24 * time.Hour)} {
		in.State.Snapshot.Locks = append(in.State.Snapshot.Locks, fencelock.Status{Name: jobtimes.PeriodLock("job", start), Holders: []fencelock.Holder{{Kept: true}}})
	}
	slices.SortFunc(in.State.Snapshot.Locks, func(a, b fencelock.Status) int { return strings.Compare(a.Name, b.Name) })
	in.State.Snapshot.At, in.Now = midnight.Add(-time.Second), midnight.Add(24*time.Hour+time.Second)
	lines(t, Text(in), `fencelock_job_begun{lock="job"} 1`, `fencelock_job_missed{lock="job"} 0`)
}

// TestSumsAreComputedOnceForASnapshot: a scrape of a snapshot that was scraped before reads no lock.
func TestSumsAreComputedOnceForASnapshot(t *testing.T) {
	in := input([]string{"deploy/*"}, fencelock.Status{Name: "deploy/a", Holders: []fencelock.Holder{held(time.Minute)}})
	lines(t, Text(in), `fencelock_lock_holders{lock="deploy/*"} 1`, `fencelock_locks_held 1`, `fencelock_lock_held_seconds{lock="deploy/*"} 62`)
	in.State.Snapshot.Locks = nil // a snapshot does not change; this shows that it is not read
	in.Now = now.Add(time.Second)
	lines(t, Text(in), `fencelock_lock_holders{lock="deploy/*"} 1`, `fencelock_locks_held 1`, `fencelock_lock_held_seconds{lock="deploy/*"} 63`)
	in.State.Snapshot = &lockfeed.Snapshot{At: now}
	lines(t, Text(in), `fencelock_lock_holders{lock="deploy/*"} 0`, `fencelock_locks_held 0`, `fencelock_lock_held_seconds{lock="deploy/*"} 0`)
}

// TestOldSeriesAreAbsent: while the store does not answer, nothing is known of locks.
func TestOldSeriesAreAbsent(t *testing.T) {
	in := input([]string{"every=24h a"}, fencelock.Status{Name: "a", Holders: []fencelock.Holder{held(time.Hour)}})
	in.State.Err = fencelock.ErrUnavailable
	text := Text(in)
	lines(t, text, "fencelock_store_up 0")
	if strings.Contains(text, "fencelock_lock") || strings.Contains(text, "fencelock_job") {
		t.Errorf("got\n%s", text)
	}
	in.State = lockfeed.State{} // before the first poll
	lines(t, Text(in), "fencelock_store_up 0")
}

// TestSeriesNeedTheRight: a caller gets the series of what it may see.
func TestSeriesNeedTheRight(t *testing.T) {
	in := input([]string{"orders/a", "orders/*", "*", "billing/a"}, fencelock.Status{Name: "orders/a"})
	in.Sees = func(name string) bool { return strings.HasPrefix(name, "orders/") }
	text := Text(in)
	lines(t, text, `fencelock_lock_holders{lock="orders/a"} 0`, `fencelock_lock_holders{lock="orders/*"} 0`)
	if strings.Contains(text, "billing") || strings.Contains(text, `"*"`) || strings.Contains(text, "fencelock_locks_held") {
		t.Errorf("got\n%s", text)
	}
}

// TestNamesAreEscaped: a name cannot add a series.
func TestNamesAreEscaped(t *testing.T) {
	w := Watch{Name: "a\"} 1\nb{c=\"\\"}
	in := input(nil)
	in.Watches = []Watch{w}
	lines(t, Text(in), `fencelock_lock_holders{lock="a\"} 1\nb{c=\"\\"} 0`)
}
