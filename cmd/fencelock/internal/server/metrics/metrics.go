// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/jobtimes"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/lockfeed"
)

// Input is what a scrape is computed from.
type Input struct {
	Watches []Watch
	// Sums are kept from scrape to scrape.
	Sums  *Sums
	State lockfeed.State
	Polls lockfeed.Polls
	// Lists is set if the store can list its locks. Without a list there are no series of locks.
	Lists bool
	// Viewers is how many streams of events are open.
	Viewers int64
	// Sees reports whether the caller may see a lock.
	Sees func(name string) bool
	Now  time.Time
}

// Text is the answer to a scrape.
func Text(in *Input) string {
	var b strings.Builder
	for _, f := range append(ofServer(in), ofLocks(in)...) {
		f.write(&b)
	}
	return b.String()
}

func gauge(name, help string) *family   { return &family{name: name, help: help, kind: "gauge"} }
func counter(name, help string) *family { return &family{name: name, help: help, kind: "counter"} }

func number(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

// ofServer is about the store as a whole. How many locks there are is for callers that may
// see all of them.
func ofServer(in *Input) []*family {
	up := gauge("fencelock_store_up", "Whether the last poll of the store succeeded.")
	up.add("", number(in.State.Err == nil && in.State.Snapshot != nil))
	polls := counter("fencelock_polls_total", "Polls of the store.")
	polls.add("", float64(in.Polls.Count))
	failures := counter("fencelock_poll_failures_total", "Polls of the store that failed.")
	failures.add("", float64(in.Polls.Failed))
	all := []*family{up, polls, failures}
	if in.State.Ended.IsZero() {
		return all
	}
	took := gauge("fencelock_poll_duration_seconds", "How long the last poll of the store took.")
	took.add("", in.State.Took.Seconds())
	ended := gauge("fencelock_poll_timestamp_seconds", "When the last poll of the store ended.")
	ended.add("", float64(in.State.Ended.UnixMilli())/1000)
	all = append(all, took, ended)
	if !in.Sees("") || !answers(in) {
		return all
	}
	held, contended := gauge("fencelock_locks_held", "Locks that are held."), gauge("fencelock_locks_contended", "Locks that clients wait for.")
	viewers := gauge("fencelock_viewers", "Open streams of events.")
	counts := in.State.Snapshot.Counts()
	held.add("", float64(counts.Held))
	contended.add("", float64(counts.Contended))
	viewers.add("", float64(in.Viewers))
	return append(all, held, contended, viewers)
}

func answers(in *Input) bool { return in.Lists && in.State.Err == nil && in.State.Snapshot != nil }

// families are the series of locks.
type families struct {
	holders, waiters, held, waiting, troubled, heldLimit, waitingLimit, missed, begun *family
}

func ofLocks(in *Input) []*family {
	f := families{
		holders:      gauge("fencelock_lock_holders", "How many hold the lock; of a prefix, how many hold any."),
		waiters:      gauge("fencelock_lock_waiters", "The length of the queue; of a prefix, of all queues."),
		held:         gauge("fencelock_lock_held_seconds", "How long the oldest holder has held it, 0 if it is free."),
		waiting:      gauge("fencelock_lock_waiting_seconds", "How long the first in the queue has waited, 0 if none waits."),
		troubled:     gauge("fencelock_lock_not_renewed", "How many locks have a holder that does not renew."),
		heldLimit:    gauge("fencelock_lock_held_limit_seconds", "How long it may be held, as the operator set it."),
		waitingLimit: gauge("fencelock_lock_waiting_limit_seconds", "How long a client may wait, as the operator set it."),
		missed:       gauge("fencelock_job_missed", "Whether the job did not run in the period before, or has not begun in this one in time."),
		begun:        gauge("fencelock_job_begun", "Whether the job has begun in this period."),
	}
	if answers(in) {
		sums := in.Sums.at(in.State.Snapshot, in.Watches)
		for i := range in.Watches {
			if w := &in.Watches[i]; in.Sees(w.Name) {
				f.add(in, w, &sums[i])
			}
		}
	}
	return []*family{f.holders, f.waiters, f.held, f.waiting, f.troubled, f.heldLimit, f.waitingLimit, f.missed, f.begun}
}

// add appends the series of a watch.
func (f *families) add(in *Input, w *Watch, s *sum) {
	label, since := w.Label(), max(0, in.Now.Sub(in.State.Snapshot.At))
	f.holders.add(label, float64(s.holders))
	f.waiters.add(label, float64(s.waiters))
	f.held.add(label, s.held.after(since))
	f.waiting.add(label, s.waiting.after(since))
	f.troubled.add(label, float64(s.troubled))
	if w.Held > 0 {
		f.heldLimit.add(label, w.Held.Seconds())
	}
	if w.Waiting > 0 {
		f.waitingLimit.add(label, w.Waiting.Seconds())
	}
	if w.Every > 0 {
		begun, missed := job(in.State.Snapshot, w)
		f.begun.add(label, number(begun))
		f.missed.add(label, number(missed))
	}
}

// job reports whether a job has begun in the present period, and whether it missed the one
// before, or its time in this one. The mark of a run stays for two periods, so that no memory
// is needed. The time is that of the poll: a period that began after it has no marks yet.
func job(s *lockfeed.Snapshot, w *Watch) (begun, missed bool) {
	start := jobtimes.PeriodStart(s.At, w.Every)
	ran := func(start time.Time) bool {
		st := s.Lock(jobtimes.PeriodLock(w.Name, start))
		return st != nil && len(st.Holders) > 0
	}
	begun = ran(start)
	late := w.By > 0 && s.At.Sub(start) > w.By && !begun
	return begun, late || !ran(start.Add(-w.Every))
}

// family is a metric with its samples. An empty one is not written.
type family struct {
	name, help, kind string
	samples          []sample
}

type sample struct {
	label string // of the lock; empty if it is about all
	value float64
}

func (f *family) add(label string, value float64) {
	f.samples = append(f.samples, sample{label, value})
}

var escaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// write appends the family in the text format of Prometheus.
func (f *family) write(b *strings.Builder) {
	if len(f.samples) == 0 {
		return
	}
	b.WriteString("# HELP " + f.name + " " + f.help + "\n# TYPE " + f.name + " " + f.kind + "\n")
	for _, s := range f.samples {
		b.WriteString(f.name)
		if s.label != "" {
			b.WriteString(`{lock="` + escaper.Replace(s.label) + `"}`)
		}
		b.WriteString(" " + strconv.FormatFloat(s.value, 'g', -1, 64) + "\n")
	}
}
