// SPDX-License-Identifier: Apache-2.0

// Package cronlock runs each occurrence of a job of robfig/cron v3 on one replica.
//
// First consider [fencelock.Client.Once] inside the job, with [Occurrence]: its context ends
// when the lock is lost, and its error can be handled. A job of cron has neither.
//
//	schedule, err := cron.ParseStandard("0 3 * * *")
//	…
//	once, err := cronlock.Once[cron.Job](client, "report", schedule, nil)
//	…
//	c := cron.New()
//	c.Schedule(schedule, once(cron.FuncJob(report)))
//
// Every replica fires, each by its own clock. The scheduled time names the occurrence, and
// the first replica that fires for it runs it:
//
//	scheduled      03:00
//	replica 1      ├ fires: runs "report@2026-11-16T03:00:00Z"
//	replica 2        ├ fires: it is running
//	clock behind              ├ fires: it already ran
//
// The time is written in UTC, so months, time zones and daylight saving time are those of
// the schedule. Replicas must have the same schedule and the same location
// ([Options.Location]).
//
// # Failures
//
//   - The process of a run dies, or its job panics: another replica that fires later may run
//     the occurrence. cron fires once, so usually none does.
//   - The store does not answer: the occurrence does not run on this replica. It is reported.
//   - The lock is lost during a run: it is reported when the job has ended.
//   - A replica is later than Options.Keep: it runs the occurrence again.
//   - "@every 1h" counts from the start of each process, so replicas have no occurrence in
//     common: Once refuses it. Package gocronlock shows what to do then.
//
// cron is not imported: the type parameter is its type Job, and its type Schedule has the
// method of [Schedule]. So this package adds nothing to go.mod.
package cronlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fencelock/fencelock"
)

// DefaultKeep is how long the mark of an occurrence stays.
const DefaultKeep = time.Hour

// Options are the settings of Once.
type Options struct {
	// Keep is how long the mark of an occurrence stays; DefaultKeep if it is 0. Choose it
	// longer than any replica can be late.
	Keep time.Duration
	// Location is that of cron.WithLocation; time.Local if it is nil, as in cron. A schedule
	// without CRON_TZ has no location, so that its times are those of this one. It must be
	// the same in all replicas.
	Location *time.Location
	// Report is called after each firing. Without it, errors are logged.
	Report func(Report)
}

// Report is what became of one occurrence on this replica.
type Report struct {
	// Name is the name given to Once, and Occurrence the scheduled time.
	Name, Occurrence string
	// Result is the outcome, as Once.Do of the client returns it.
	Result fencelock.OnceResult
	// Err is why it did not run, or that it may run twice.
	Err error
}

// Schedule is cron.Schedule: Next returns the first scheduled time after t.
type Schedule interface {
	Next(t time.Time) time.Time
}

// Job is cron.Job.
type Job interface{ Run() }

// Once returns a cron.JobWrapper: of the replicas that fire for one occurrence, one runs the
// job. J is cron.Job, and opts may be nil. It fails if replicas have no occurrence in common
// on this schedule, if the store cannot keep the mark of an occurrence, and if J is not
// cron.Job.
func Once[J Job](c *fencelock.Client, name string, schedule Schedule, opts *Options) (func(J) J, error) {
	if opts == nil {
		opts = &Options{}
	}
	keep, report, location := opts.Keep, opts.Report, opts.Location
	if location == nil {
		location = time.Local
	}
	if keep == 0 {
		keep = DefaultKeep
	}
	if report == nil {
		report = logged
	}
	_, fits := any(job(nil)).(J)
	_, err := Occurrence(schedule, time.Now().In(location))
	switch {
	case err != nil:
		return nil, err
	case keep < 0:
		return nil, fmt.Errorf("cronlock: once %q: Options.Keep is %v; it must be positive", name, keep)
	case !c.Guarantees().Hold:
		return nil, fmt.Errorf("cronlock: once %q: the %s store cannot keep the mark of an occurrence: use Redis, etcd or a database", name, c.Guarantees().Server)
	case !fits:
		return nil, fmt.Errorf("cronlock: once %q: the type parameter is not cron.Job; write Once[cron.Job]", name)
	}
	once := c.Once(name, keep)
	return func(inner J) J {
		return any(job(func() {
			// What a panic of the job leaves.
			r := Report{Name: name, Result: fencelock.OnceResult{Ran: true}, Err: errors.New("cronlock: the job panicked")}
			defer func() { report(r) }()
			r = fire(once, name, schedule, location, inner)
		})).(J)
	}, nil
}

// fire runs the job for the occurrence of this moment, unless another replica does.
func fire(once *fencelock.Once, name string, schedule Schedule, location *time.Location, inner Job) Report {
	r := Report{Name: name}
	if r.Occurrence, r.Err = Occurrence(schedule, time.Now().In(location)); r.Err == nil {
		r.Result, r.Err = once.Do(context.Background(), r.Occurrence, func(context.Context, *fencelock.Lease) error {
			inner.Run()
			return nil
		})
	}
	return r
}

// job is a cron.Job.
type job func()

// Run runs the job.
func (j job) Run() { j() }

func logged(r Report) {
	switch {
	case r.Err != nil && !r.Result.Ran:
		slog.Error("cronlock: an occurrence did not run on this replica", "job", r.Name, "occurrence", r.Occurrence, "error", r.Err)
	case r.Err != nil:
		slog.Error("cronlock: an occurrence may run twice", "job", r.Name, "occurrence", r.Occurrence, "error", r.Err)
	}
}

// longest is the greatest distance between two scheduled times: cron gives up after as long.
const longest = 5 * 366 * 24 * time.Hour

// Occurrence returns the name of the occurrence for which a replica fires at a time: the last
// scheduled time until then, in UTC. Of a schedule without a location, the location of at
// counts. Occurrence is for [fencelock.Once], too. It fails if the
// schedule counts from the moment it is asked, as cron's @every does.
func Occurrence(schedule Schedule, at time.Time) (string, error) {
	// A schedule can only be asked for the time after another. So go back until there is
	// one between, and then forward to the last.
	back := time.Second
	for !between(schedule, at.Add(-back), at) {
		if back *= 2; back > 2*longest {
			return "", errors.New("cronlock: the schedule has no time in ten years")
		}
	}
	if relative(schedule, at.Add(-back), back) {
		return "", errors.New("cronlock: the schedule counts from the moment it is asked, as @every does, so that replicas have no occurrence in common; " +
			"use times of the day, or MinHold as package gocronlock does")
	}
	last := schedule.Next(at.Add(-back))
	for between(schedule, last, at) {
		last = schedule.Next(last)
	}
	return last.UTC().Format(time.RFC3339Nano), nil
}

// relative reports whether a schedule counts from the moment it is asked: then it gives a
// time that is a second later if it is asked a second later. Asking right before a scheduled
// time would be simpler, but when clocks are changed there are locations in which cron does
// not return it any more. The answer to one question may depend on the moment then, those to
// several do not.
func relative(schedule Schedule, from time.Time, back time.Duration) bool {
	for range 4 {
		next := schedule.Next(from)
		if next.Sub(from) <= time.Second || schedule.Next(from.Add(time.Second)).Equal(next) {
			return false
		}
		from = from.Add(-back)
	}
	return true
}

// between reports whether there is a scheduled time after from and not after to. cron
// returns the zero time if there are no more.
func between(schedule Schedule, from, to time.Time) bool {
	next := schedule.Next(from)
	return !next.IsZero() && !next.After(to)
}
