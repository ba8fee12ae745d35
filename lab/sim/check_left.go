// SPDX-License-Identifier: Apache-2.0

package sim

// checkLeft: when all workers have ended, no client holds or wants anything, so
// the store keeps nothing of it but its empty sessions; and nothing at all of
// processes that have ended, or when all clients are closed. A store that woke up
// with an older memory may know claims that ended or were broken as still to be
// withdrawn. A tombstone may stay as long as its session, where an attempt may
// have been on its way when its caller went: by a fault or by its context.
func checkLeft(v *view, bad complain) {
	tombstones := map[int]int{}
	for _, l := range v.h.Left {
		tombstones[l.Client] += l.Tombstones
		switch {
		case !l.Alive:
			bad(nil, "c%d has ended, and the store keeps its session %s", l.Client, l.ID)
		case len(l.Granted) > 0:
			bad(nil, "c%d holds nothing, and the store has granted %q to its session %s", l.Client, l.Granted, l.ID)
		case len(l.Queued) > 0:
			bad(nil, "c%d wants nothing, and %q is queued for its session %s", l.Client, l.Queued, l.ID)
		case l.Ended+l.Broken > 0 && !v.wokeUpOld():
			bad(nil, "c%d has nothing to withdraw, and the store keeps %d of its claims that ended and %d that were broken",
				l.Client, l.Ended, l.Broken)
		}
	}
	if v.h.Rest != "" {
		bad(nil, "all clients are closed, and the store keeps %s", v.h.Rest)
	}
	gaveUp := map[int]int{}
	for _, a := range v.acqs {
		if !a.ok || a.downErr != nil {
			gaveUp[a.call.Client]++
		}
	}
	for client, n := range tombstones {
		if v.untouched(client) && len(v.losses) == 0 && n > gaveUp[client] {
			bad(nil, "no fault struck c%d, %d of its acquisitions gave up, and it left %d tombstones", client, gaveUp[client], n)
		}
	}
}

// wokeUpOld reports whether the store ever began an incarnation with an older
// memory.
func (v *view) wokeUpOld() bool {
	for _, loss := range v.dataLosses {
		if loss.Kind == Restored {
			return true
		}
	}
	return false
}
