// SPDX-License-Identifier: Apache-2.0

package fencetest

import "github.com/fencelock/fencelock/fence"

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
