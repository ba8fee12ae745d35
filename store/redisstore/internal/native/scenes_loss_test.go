// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// over lets a grace period pass, with some sessions alive.
func (w *world) over(alive ...int) {
	w.t.Helper()
	w.pass(maxTTL+100*time.Millisecond, alive...)
}

// lossScenes are about grace periods and about votes.
var lossScenes = []scene{
	{name: "grace", grace: true, play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.ask(1, 1, "a", plainTerms)
		w.ask(0, 2, "b", limited(2, 2))
		w.ask(1, 2, "c", reentrant("r"))
		w.ask(2, 2, "c", reentrant("r"))
		w.lose("flush", true)
		w.compareAll()
		w.ask(2, 1, "a", plainTerms)
		w.ask(1, 1, "a", plainTerms)
		w.try(2, 3, "d", plainTerms)
		w.ask(2, 4, "d", plainTerms)
		w.gone(0, true)
		w.gone(1, true)
		w.ask(2, 5, "b", readTerms)
		w.gone(2, true)
		w.withdrawal(0, driver.Withdrawal{Seq: 101, Name: "a"})
		w.over(0, 1, 2)
		w.ask(2, 4, "d", plainTerms)
		w.leave(2, 1, "a")
		w.ask(0, 7, "a", plainTerms)
		w.leave(1, 1, "a")
	}},
	{name: "grace, late reclaim", grace: true, play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.lose("wiped", false)
		w.compareAll()
		lost := slices.Clone(w.procs[0].lost)
		w.over(0, 1)
		w.procs[0].lost = lost
		w.gone(0, true)
		w.ask(1, 1, "a", plainTerms)
	}},
	{name: "grace, older data", grace: true, play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.ask(0, 2, "b", plainTerms)
		w.ask(0, 3, "c", readTerms)
		w.save()
		w.leave(0, 1, "a")
		w.leave(0, 2, "b")
		w.leave(0, 3, "c")
		w.ask(1, 1, "a", plainTerms)
		w.ask(1, 2, "b", readTerms)
		w.ask(1, 3, "c", limited(1, 1))
		w.lose("older", true)
		w.compareAll()
		w.gone(1, true)
		w.gone(0, true)
		w.over(0, 1)
		w.ask(2, 1, "d", plainTerms)
		w.ask(0, 7, "a", plainTerms)
		w.leave(1, 1, "a")
	}},
	{name: "grace, handoff", grace: true, play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.save()
		w.ask(0, 2, "a", plainTerms)
		w.lose("older", true)
		w.compareAll()
		w.ask(0, 2, "a", plainTerms)
		w.leave(0, 1, "a")
		w.compareAll()
	}},
	{name: "grace, newer first", grace: true, play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		old := w.procs[0].held
		w.leave(0, 1, "a")
		w.ask(1, 1, "a", plainTerms)
		w.lose("flush", false)
		w.compareAll()
		w.gone(1, true)
		w.withdrawal(1, driver.Withdrawal{Seq: 101, Name: "a"})
		w.reclaim(0, old, false)
		w.compareAll()
		w.withdrawal(2, driver.Withdrawal{Seq: 109, Name: "a", Tombstone: true})
		w.reclaim(2, []held{{driver.Claim{Seq: 109, Name: "b", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}, old[0].pair}}, false)
		w.compareAll()
	}},
	{name: "grace, beside others", grace: true, play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.ask(0, 2, "b", reentrant("r"))
		w.ask(1, 2, "b", reentrant("r"))
		w.lose("flush", false)
		w.compareAll()
		mine := slices.Clone(w.procs[0].lost)
		w.reclaim(0, mine, false)
		other := held{driver.Claim{Seq: 109, Name: "a", Terms: &driver.Terms{Weight: 1, Mode: driver.Shared, Record: &driver.Record{}}},
			pair{mine[0].model + 5*driver.TokenStep, mine[0].real + 5*driver.TokenStep}}
		w.reclaim(2, []held{other}, false) // shared beside exclusive
		other.claim.Terms = &driver.Terms{Weight: 1, Reentry: "q", Record: &driver.Record{}}
		other.claim.Name = "b"
		w.reclaim(2, []held{other}, false) // another re-entry
		other.claim.Terms = &driver.Terms{Weight: 1, Reentry: "r", Record: &driver.Record{}}
		w.reclaim(2, []held{other}, false) // another token
		w.compareAll()
		w.gone(1, true)
	}},
	{name: "grace, after a newer", grace: true, play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		old := w.procs[0].held
		w.leave(0, 1, "a")
		w.ask(1, 1, "a", plainTerms)
		w.lose("restart", false)
		w.compareAll()
		w.reclaim(0, old, false)
		w.gone(1, true)
	}},
	{name: "grace, asked before", grace: true, play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.lose("flush", false)
		w.compareAll()
		lost := slices.Clone(w.procs[0].lost)
		w.ask(1, 1, "a", plainTerms)
		w.ask(0, 1, "a", plainTerms)
		w.reclaim(0, lost, true)
		w.compareAll()
	}},
	// A claim that is queued then comes first in the list, where a holder would be.
	{name: "grace, given up", grace: true, play: func(w *world) {
		w.openAll()
		w.lose("flush", false)
		w.ask(0, 1, "a", plainTerms)
		w.leave(0, 1, "a")
		w.ask(1, 1, "a", readTerms)
		w.leave(1, 1, "a")
	}},
	{name: "grace, from a clock ahead", grace: true, play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.lose("flush", false)
		w.compareAll()
		far := slices.Clone(w.procs[0].lost)
		const hour = 3600_000_000 * driver.TokenStep
		far[0].pair = pair{far[0].model + hour, far[0].real + hour}
		w.reclaim(0, far, true)
		w.compareAll()
		w.leave(0, 1, "a")
		w.ask(1, 1, "a", plainTerms)
		w.ask(0, 2, "b", plainTerms)
		w.over(0, 1)
	}},
	{name: "lifted, older data", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.save()
		w.vote(0, 1, "a", 1, true)
		w.lose("older", true)
		w.compareAll()
		w.gone(0, true)
	}},
	{name: "grace, limits", grace: true, play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", limited(1, 1))
		w.ask(1, 1, "a", limited(1, 1))
		w.lose("restart", false)
		w.compareAll()
		w.ask(1, 1, "a", limited(1, 1))
		w.leave(0, 1, "a")
		w.over(0, 1, 2)
	}},
	{name: "votes", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.leave(0, 1, "a")
		w.ask(1, 1, "a", plainTerms)
		w.ask(2, 1, "a", plainTerms)
		w.vote(0, 2, "a", 5, false)
		w.leave(1, 1, "a")
		w.leave(2, 1, "a")
		w.ask(1, 3, "a", plainTerms)
		w.ask(1, 4, "b", plainTerms)
		w.vote(0, 2, "a", 3, true)
		w.leave(0, 2, "a")
		w.leave(1, 3, "a")
		w.ask(1, 5, "a", plainTerms)
		w.leave(1, 5, "a")
		w.ask(1, 6, "a", plainTerms)
		w.vote(0, 4, "c", 5, false)
		w.ask(1, 7, "c", plainTerms)
		w.save()
		w.lose("older", false)
		w.compareAll()
		w.ask(2, 7, "a", plainTerms)
		w.gone(1, true)
		w.leave(1, 6, "a")
		w.ask(0, 9, "d", plainTerms)
		w.leave(0, 4, "c")
		w.ask(2, 8, "c", plainTerms)
	}},
}
