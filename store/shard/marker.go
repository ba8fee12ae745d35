// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// reserved starts the names that the shard uses on the members for itself.
const reserved = ".shard/"

// The markers are exclusive claims that processes with the same list share. A process
// that uses one list takes listMarker, a process between two lists changeMarker. Each
// takes its own marker first and reads the other one then, so that of two processes
// that do not fit together at least one notices.
const (
	listMarker   = reserved + "members"
	changeMarker = reserved + "change"
)

// view is what a process uses: one list, or two while a change is under way.
type view struct{ before, after list }

// changing reports whether the two lists differ.
func (v view) changing() bool { return v.before.id() != v.after.id() }

// mark is a marker that a process takes, and which marks of others it accepts.
type mark struct {
	name, id, text string
	// other is the marker to read after this one is taken; fits reports whether a
	// holder of it, by its id, may run beside this process.
	other string
	fits  func(id string) bool
}

// adopted is the mark of a process that uses the list after the change.
func (v view) adopted() mark {
	id := v.after.id()
	return mark{name: listMarker, id: id, text: "members " + v.after.String(), other: changeMarker,
		fits: func(other string) bool { return slices.Contains(strings.Split(other, ">"), id) }}
}

// between is the mark of a process that locks only what both lists agree on.
func (v view) between() mark {
	old, next := v.before.id(), v.after.id()
	return mark{name: changeMarker, id: old + ">" + next, text: fmt.Sprintf("members %s, then %s", v.before, v.after), other: listMarker,
		fits: func(other string) bool { return other == old || other == next }}
}

// misfit returns the first holder that may not run beside a process with the mark.
func misfit(holders []driver.Holder, fits func(id string) bool) (driver.Holder, bool) {
	for _, h := range holders {
		if !h.Kept && !fits(h.Reentry) {
			return h, true
		}
	}
	return driver.Holder{}, false
}

// errOtherList is the refusal of a process whose list differs from one in use.
func errOtherList(member string, h driver.Holder, m mark) error {
	return fmt.Errorf("shard: member %s is in use by %s with another list (%s) than ours (%s); give all processes the same list, "+
		"or mark the members that join and leave (Member.Change): %w", member, h.Record.Owner, h.Record.Reason, m.text, driver.ErrRefused)
}

// errStillUsed is the answer for a name that moves while a process uses the earlier list.
func errStillUsed(member string, h driver.Holder) error {
	return fmt.Errorf("shard: open: this name moves to another member when no process uses the earlier list any more; at member %s %s still does (%s); "+
		"stop it or wait for it to end: %w", member, h.Record.Owner, h.Record.Reason, driver.ErrUnavailable)
}

// self names this process for people.
var self = func() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}()

// claim is the claim for a mark.
func (m mark) claim(seq uint64) driver.Claim {
	return driver.Claim{Seq: seq, Name: m.name, Terms: &driver.Terms{
		Weight: 1, Reentry: m.id, Record: &driver.Record{Owner: self, Reason: m.text},
	}}
}
