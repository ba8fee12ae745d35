// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"errors"
	"time"

	"github.com/fencelock/fencelock/fence"
)

// stepCases stop one holder before each of its round trips and let the other
// one work there.
var stepCases = []spec{
	{"G3", "entry-in-steps", nothing, entryInSteps},
	{"G4", "write-in-steps", nothing, writeInSteps},
	{"G4", "late-entry-in-steps", nothing, lateEntryInSteps},
}

// maxSteps ends a case against a guard that never comes to an end.
const maxSteps = 50

// stopAt calls f with 1, 2, 3 and so on, the round trip to stop a call before,
// until f reports that the call was over before it. A call that is over before
// its first round trip was never stopped: the case has proved nothing.
func (t *scene) stopAt(f func(at int) (over bool)) {
	for at := 1; ; at++ {
		if at > maxSteps {
			t.fatalf("a single call made more than %d round trips", maxSteps)
		}
		if !f(at) {
			continue
		}
		if at == 1 {
			t.fatalf("the call announced no round trip, so it was never stopped: the harness must call fencetest.Step before every round trip to the resource")
		}
		return
	}
}

// whileStopped waits until c is stopped, starts the other call, and lets c go on
// when that call is done or seems to be blocked by c.
func (t *scene) whileStopped(c *call, begin func() *call) (other *call, over bool) {
	select {
	case <-c.gate.stopped:
	case <-c.done:
		over = true
	}
	other = begin()
	timer := time.NewTimer(t.h.patience())
	defer timer.Stop()
	select {
	case <-other.done:
	case <-timer.C:
	}
	close(c.gate.goOn)
	c.wait()
	return other.wait(), over
}

// The old holder is stopped in the middle of its write, and the new one enters
// there, or enters and writes. Whatever the order was: the new value stands, and the new holder
// has seen the old one's write if that was admitted.
func writeInSteps(t *scene) { t.writeSteps(t.same) }

// same and reopened are what the new holder uses while the old one uses v.
func (t *scene) same(v *Value) *Value { return v }

func (t *scene) writeSteps(other func(*Value) *Value) {
	t.stopAt(func(at int) bool {
		v := t.value()
		w := other(v)
		t.enter(v, t.old)
		late := t.startWrite(v, t.old, "old", at)
		entry, over := t.whileStopped(late, func() *call { return t.startEnter(w, t.new, 0) })
		t.admitted(entry)
		t.judge(late, entry, at)
		t.write(w, t.new, "new")
		t.reads(v, "new")
		return over || t.writeAfter(at, other)
	})
}

// writeAfter is the same with a new holder that also writes before the old one
// goes on.
func (t *scene) writeAfter(at int, other func(*Value) *Value) (over bool) {
	v := t.value()
	w := other(v)
	t.enter(v, t.old)
	late := t.startWrite(v, t.old, "old", at)
	var seen *call
	last, over := t.whileStopped(late, func() *call {
		seen = t.startEnter(w, t.new, 0)
		select {
		case <-seen.done:
			return t.startWrite(w, t.new, "new", 0)
		case <-time.After(t.h.patience()):
			return seen // blocked: it enters when the old one has gone on
		}
	})
	t.admitted(seen)
	t.admitted(last)
	t.judge(late, seen, at)
	if last == seen {
		t.write(w, t.new, "new")
	}
	t.reads(v, "new")
	return over
}

// judge compares what became of the old holder's write with what the new holder
// read at its entry.
func (t *scene) judge(write, entry *call, at int) {
	switch stale := errors.Is(write.err, fence.ErrStale); {
	case write.err == nil && entry.value != "old":
		t.fatalf("the old holder's write was admitted, and the new holder read %q at its entry: what it writes next undoes the old write unseen (stopped before round trip %d)",
			entry.value, at)
	case stale && entry.value == "old":
		t.fatalf("the old holder got ErrStale, and its write is there (stopped before round trip %d)", at)
	}
}

// The new holder is stopped in the middle of its entry, and the old one writes.
func entryInSteps(t *scene) { t.entrySteps(t.same) }

func (t *scene) entrySteps(other func(*Value) *Value) {
	t.stopAt(func(at int) bool {
		v := t.value()
		w := other(v)
		t.enter(v, t.old)
		entry := t.startEnter(w, t.new, at)
		late, over := t.whileStopped(entry, func() *call { return t.startWrite(v, t.old, "old", 0) })
		t.admitted(entry)
		t.judge(late, entry, at)
		t.write(w, t.new, "new")
		t.reads(v, "new")
		return over
	})
}

// The old holder is stopped in the middle of its entry, and the new one enters.
// If the old one ends up below the fence, it stays out, and if it got the answer that
// it is in, it was in before.
func lateEntryInSteps(t *scene) {
	t.stopAt(func(at int) bool {
		v := t.value()
		late := t.startEnter(v, t.old, at)
		entry, over := t.whileStopped(late, func() *call { return t.startEnter(v, t.new, 0) })
		t.admitted(entry)
		t.refused(t.startWrite(v, t.old, "old", 0).wait(), fence.ErrStale)
		t.reads(v, "")
		t.write(v, t.new, "new")
		t.refused(t.startEnter(v, t.old, 0).wait(), fence.ErrStale)
		t.reads(v, "new")
		return over
	})
}
