// SPDX-License-Identifier: Apache-2.0

// Package jobtimes decides when a command under a lock is stopped, and names the period in
// which a job runs once. Every function is a function of its arguments.
//
//	renewal sent           renew again               TERM          KILL       another may hold
//	 │                        │                        │             │               │
//	 ├──── trust/3 ───────────┤     a lost renewal     │             │               │
//	 │                        │     is tried again     ├─ stop time ─┤               │
//	 ├──── trust = TTL − drift share − margin ─────────┼─────────────┤               │
//	 │                                                               ├─ drift+margin ┤
//	 ├──── TTL, by the store's clock ────────────────────────────────────────────────┤
//
// The deadline of a lease (where KILL stands) is the library's: it counts from
// before the last successful renewal was sent. The command gets TERM a stop time
// before it, and the margin is what the kernel has to carry out the KILL.
package jobtimes

import (
	"fmt"
	"strings"
	"time"
)

// Times are what a user chooses; zero means the default.
type Times struct {
	// TTL is how long the store keeps the lock after it was last renewed.
	TTL time.Duration
	// Drift is the share of the TTL by which clocks may disagree.
	Drift float64
	// Margin lies between KILL and the end of the TTL. Default TTL/10.
	Margin time.Duration
	// Stop is the time between TERM and KILL. Default TTL/5.
	Stop time.Duration
}

// WithDefaults fills in defaults and rejects times that cannot work: a renewal comes
// after a third of the trusted time, one more third must be left to try again
// when a renewal is lost, and the stop time must fit into the last.
func (t Times) WithDefaults() (Times, error) {
	if t.TTL <= 0 || t.Margin < 0 || t.Stop < 0 {
		return t, fmt.Errorf("--ttl %v, --margin %v, --stop-time %v: times must be positive", t.TTL, t.Margin, t.Stop)
	}
	if t.Margin == 0 {
		t.Margin = t.TTL / 10
	}
	if t.Stop == 0 {
		t.Stop = t.TTL / 5
	}
	trust := t.trust()
	if trust < t.TTL/2 {
		return t, fmt.Errorf("--margin %v leaves %v of --ttl %v; at least half must be left", t.Margin, trust, t.TTL)
	}
	if most := trust / 3; t.Stop > most {
		return t, fmt.Errorf("--stop-time %v is too long for --ttl %v: the command would be stopped while the lock is still renewed; "+
			"give it %v at most, or use --ttl %v", t.Stop, t.TTL, most.Truncate(10*time.Millisecond), t.needed())
	}
	return t, nil
}

func (t Times) trust() time.Duration {
	return t.TTL - time.Duration(float64(t.TTL)*t.Drift) - t.Margin
}

// needed is a TTL, in whole seconds, that has room for the stop time.
func (t Times) needed() time.Duration {
	share := float64(t.trust()) / float64(t.TTL)
	return time.Duration(float64(3*t.Stop)/share/float64(time.Second)+1) * time.Second
}

// Action is what to do with the command.
type Action int

// The actions.
const (
	Wait Action = iota
	Term
	Kill
)

// Next returns what to do when so much is left until the deadline, and when to check
// again: the deadline moves with every renewal, even after TERM.
func Next(left, stop time.Duration, termed bool) (Action, time.Duration) {
	switch {
	case left <= 0:
		return Kill, 0
	case left > stop:
		return Wait, min(left-stop, stop/4)
	case !termed:
		return Term, 0
	}
	return Wait, min(left, stop/4)
}

// Enough reports whether a command may still be started: it must not be stopped
// right away. A lease that is renewed as it should has two thirds of the trusted
// time left at any moment, and the stop time is at most one.
func Enough(left, stop time.Duration) bool { return left > stop+stop/4 }

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
