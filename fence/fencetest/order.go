// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"math"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
)

// orderCases let whole calls follow each other.
var orderCases = []spec{
	{"G1", "first", nothing, first},
	{"G1", "retry", nothing, retry},
	{"G1", "newer", nothing, newer},
	{"G2", "delayed-writer", nothing, delayedWriter},
	{"G2", "late-entry", nothing, lateEntry},
	{"G2", "write-without-entry", nothing, writeWithoutEntry},
	{"G2", "same-holder", nothing, sameHolder},
	{"G3", "raised-at-entry", nothing, raisedAtEntry},
	{"G6", "numbers", nothing, numbers},
	{"G9", "restart", restart, afterRestart},
}

func first(t *scene) {
	v := t.value()
	if got := t.enter(v, t.old); got != "" {
		t.fatalf("a fresh value reads %q at entry, want nothing", got)
	}
	t.write(v, t.old, "a")
	t.reads(v, "a")
}

// A holder writes more than once, and enters again after an unknown outcome.
func retry(t *scene) {
	v := t.value()
	t.enter(v, t.old)
	t.write(v, t.old, "a")
	t.write(v, t.old, "a")
	t.write(v, t.old, "b")
	if got := t.enter(v, t.old); got != "b" {
		t.fatalf("entering again with the same token reads %q, want %q", got, "b")
	}
	t.enter(v, t.old)
	t.write(v, t.old, "c")
	t.reads(v, "c")
}

func newer(t *scene) {
	v := t.value()
	t.enter(v, t.old)
	t.write(v, t.old, "a")
	if got := t.enter(v, t.new); got != "a" {
		t.fatalf("the newer holder reads %q, want %q", got, "a")
	}
	t.write(v, t.new, "b")
	t.reads(v, "b")
}

// The story of all fencing: the old holder is paused, a new one works, the old
// one wakes up and writes.
func delayedWriter(t *scene) {
	v := t.value()
	t.enter(v, t.old)
	t.enter(v, t.new)
	t.write(v, t.new, "new")
	for range 2 { // again, in case a refusal moved the fence
		t.refused(t.startWrite(v, t.old, "old", 0).wait(), fence.ErrStale)
		t.reads(v, "new")
	}
	t.write(v, t.new, "newer")
	t.reads(v, "newer")
}

func lateEntry(t *scene) {
	v := t.value()
	t.enter(v, t.new)
	t.write(v, t.new, "new")
	t.refused(t.startEnter(v, t.old, 0).wait(), fence.ErrStale)
	t.refused(t.startWrite(v, t.old, "old", 0).wait(), fence.ErrStale)
	t.reads(v, "new")
	t.write(v, t.new, "newer")
}

// A program that only writes never enters. Its write raises the fence anyway:
// the first write, and the write of a newer holder after an older one entered.
func writeWithoutEntry(t *scene) {
	for _, entered := range []bool{false, true} {
		v := t.value()
		if entered {
			t.enter(v, t.old)
		}
		t.write(v, t.new, "new")
		t.refused(t.startWrite(v, t.old, "old", 0).wait(), fence.ErrStale)
		t.refused(t.startEnter(v, t.old, 0).wait(), fence.ErrStale)
		t.reads(v, "new")
		t.write(v, t.new, "newer")
		t.reads(v, "newer")
	}
}

// sameHolder: all leases of a process have its owner as their holder, so the late writer and
// the newer one mostly have one name. A guard decides by the token alone.
func sameHolder(t *scene) {
	for _, name := range []string{"process@fencetest", ""} {
		v, late, newer := t.value(), t.old, t.new
		late.name, newer.name = name, name
		t.enter(v, late)
		t.enter(v, newer)
		t.refused(t.startWrite(v, late, "late", 0).wait(), fence.ErrStale)
		t.write(v, newer, "new")
		t.refused(t.startWrite(v, late, "late", 0).wait(), fence.ErrStale)
		t.refused(t.startEnter(v, late, 0).wait(), fence.ErrStale)
		t.reads(v, "new")
	}
}

// The new holder has read and not yet written. If the old one gets in now, what
// the new one writes later is built on a value that is no longer there.
func raisedAtEntry(t *scene) {
	v := t.value()
	t.enter(v, t.old)
	t.write(v, t.old, "a")
	t.enter(v, t.new)
	t.refused(t.startWrite(v, t.old, "old", 0).wait(), fence.ErrStale)
	t.reads(v, "a")
}

// numbers: as text 9 is above 10, a float64 keeps 53 bits, and 2^62 is the highest bit.
func numbers(t *scene) {
	for _, pair := range [][2]fencelock.Token{{9, 10}, {999, 1000}, {math.MaxInt32, math.MaxInt32 + 1}, {math.MaxUint32, math.MaxUint32 + 1},
		{1 << 53, 1<<53 + 1}, {999_999_999_999_999_999, 1_000_000_000_000_000_000},
		{1<<62 - 1, 1 << 62}, {1, 1<<62 + 1}, {math.MaxInt64 - 1, math.MaxInt64}} {
		v, low, high := t.value(), t.old, t.new
		low.token, high.token = pair[0], pair[1]
		t.enter(v, low)
		t.write(v, low, "low")
		t.enter(v, high)
		t.refused(t.startWrite(v, low, "late", 0).wait(), fence.ErrStale)
		t.write(v, high, "high")
		t.refused(t.startEnter(v, low, 0).wait(), fence.ErrStale)
		t.reads(v, "high")
	}
}

func afterRestart(t *scene) {
	v := t.value()
	t.enter(v, t.old)
	t.write(v, t.old, "old")
	t.enter(v, t.new)
	t.write(v, t.new, "new")
	if err := t.h.Restart(t.ctx); err != nil {
		t.fatalf("restart: %v", err)
	}
	if got, err := v.Read(t.ctx); err != nil || got != "new" {
		t.fatalf("after a restart the value is %q (%v), want %q: Restart must keep the value", got, err, "new")
	}
	t.refused(t.startWrite(v, t.old, "late", 0).wait(), fence.ErrStale)
	t.write(v, t.new, "newer")
	t.reads(v, "newer")
}

// processCases give the old and the new holder a guard each, as two processes
// have. A fence, or a mutex around the check, in the memory of one process is
// unknown to the other process.
var processCases = []spec{
	{"G10", "two-processes", nothing, twoProcesses},
	{"G10", "two-processes-write-in-steps", nothing, twoProcessesWrite},
	{"G10", "two-processes-entry-in-steps", nothing, twoProcessesEnter},
}

func twoProcessesWrite(t *scene) { t.writeSteps(t.reopened) }

func twoProcessesEnter(t *scene) { t.entrySteps(t.reopened) }

// reopened returns the same value as another process sees it.
func (t *scene) reopened(v *Value) *Value {
	if v.Reopen == nil {
		t.skip("needs Value.Reopen")
	}
	w, err := v.Reopen(t.ctx)
	if err != nil {
		t.fatalf("the value as another process sees it: %v", err)
	}
	t.reads(w, "")
	return w
}

// The new holder works in one process, by a write alone or after an entry, and
// the old one comes late in the other process. Both processes take both parts.
func twoProcesses(t *scene) {
	for _, swap := range []bool{false, true} {
		for _, entered := range []bool{false, true} {
			v := t.value()
			w := t.reopened(v)
			if swap {
				v, w = w, v
			}
			t.enter(w, t.old)
			if entered {
				t.enter(v, t.new)
				t.refused(t.startWrite(w, t.old, "old", 0).wait(), fence.ErrStale)
			}
			t.write(v, t.new, "new")
			t.refused(t.startWrite(w, t.old, "old", 0).wait(), fence.ErrStale)
			t.refused(t.startEnter(w, t.old, 0).wait(), fence.ErrStale)
			t.reads(v, "new")
			t.reads(w, "new")
			t.write(w, t.new, "newer")
			t.reads(v, "newer")
		}
	}
}
