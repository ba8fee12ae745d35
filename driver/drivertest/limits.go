// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"sync/atomic"

	"github.com/fencelock/fencelock/driver"
)

var limitCases = []spec{
	{"L1", "together", all(sharing), l1Together},
	{"L2", "within", all(limits), l2Within},
	{"L2", "from the queue", all(limits, queue), l2FromTheQueue},
	{"L2", "many at once", all(limits), l2ManyAtOnce},
	{"L3", "replaces", all(limits), l3Replaces},
	{"L3", "raising grants", all(limits, queue), l3RaisingGrants},
	{"L3", "removing grants", all(limits, queue), l3RemovingGrants},
	{"L3", "lowering takes nothing", all(limits), l3LoweringTakesNothing},
	{"L3", "no limit stays none", all(limits), l3NoLimit},
	{"L4", "back once", all(limits), l4BackOnce},
	{"L5", "not overtaken", all(limits, queue), l5NotOvertaken},
	{"L6", "takes all", all(limits), l6TakesAll},
	{"L6", "waits for all", all(limits, queue), l6WaitsForAll},
	{"L6", "limit lowered under the holders", all(limits), l6LoweredUnderHolders},
	{"L6", "limit lowered in the queue", all(limits, queue), l6LoweredInTheQueue},
}

func l1Together(t *scene) {
	name := t.name("lock")
	var readers []*request
	for range 5 {
		readers = append(readers, t.open(name).grant(name, shared))
	}
	writer := t.openElsewhere(name).want(name)
	t.mustHold(name, readers...)
	for _, r := range readers {
		if out := writer.busy(); len(out.Holders) > driver.MaxHoldersReported {
			t.errorf("a busy answer has %d holders, want at most %d", len(out.Holders), driver.MaxHoldersReported)
		}
		r.mustFind(driver.WasGranted)
	}
	writer.granted()
}

func l2Within(t *scene) {
	name := t.name("lock")
	s := t.open(name)
	two := s.grant(name, share(2, 3))
	s.want(name, share(2, 3)).busy()
	one := t.openElsewhere(name).grant(name, share(1, 3))
	s.want(name, share(1, 3)).busy()
	two.withdraw()
	s.want(name, share(3, 3)).busy()
	s.grant(name, share(2, 3))
	one.s.close()
	s.grant(name, share(1, 3)) // a session's end gives the weight back too
	s.want(name, share(1, 3)).busy()
}

func l2FromTheQueue(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name, share(3, 3))
	w1 := t.open(name).queue(name, share(2, 3))
	w2 := t.open(name).queue(name, share(1, 3))
	w3 := t.open(name).queue(name, share(1, 3))
	holder.withdraw()
	t.mustHold(name, w1, w2)
	w3.queuedAt(0)
	w2.withdraw()
	t.mustHold(name, w1, w3)
}

func l2ManyAtOnce(t *scene) {
	const processes, rounds, limit = 8, 30, 4
	name := t.name("lock")
	stores := []driver.Store{t.store, t.other()}
	var sessions []*session
	for i := range processes {
		sessions = append(sessions, t.openOn(stores[i%2], name, t.long))
	}
	var inside, grants atomic.Int64
	t.together(processes, func(i int) {
		weight := int64(1 + i%2)
		for range rounds {
			w := sessions[i].want(name, share(weight, limit))
			if w.attempt().State != driver.Granted {
				continue
			}
			grants.Add(1)
			if n := inside.Add(weight); n > limit {
				t.fatalf("a weight of %d is granted together, the limit is %d", n, limit)
			}
			inside.Add(-weight)
			w.withdraw()
		}
	})
	if grants.Load() == 0 {
		t.fatalf("none of %d attempts was granted", processes*rounds)
	}
	t.mustBeFree(name)
}

func l3Replaces(t *scene) {
	name := t.name("lock")
	t.setLimit(name, 2)
	if got := t.inspect(name).Limit; got != 2 {
		t.errorf("Inspect shows limit %d, want 2", got)
	}
	s := t.open(name)
	a, b := s.grant(name, share(1, 5)), s.grant(name, share(1, 1))
	s.want(name, share(1, 5)).busy()
	a.withdraw()
	b.withdraw()
	s.grant(name, share(2, 1)) // a stored limit outlives the grants
	s.want(name, share(1, 5)).busy()
	t.setLimit(name, 0)
	if got := t.inspect(name).Limit; got != 0 {
		t.errorf("Inspect shows limit %d after it was removed", got)
	}
	s.want(name, share(1, 2)).busy() // their own limits count again
	s.grant(name, share(1, 5))
}

func l3RaisingGrants(t *scene) {
	name := t.name("lock")
	t.setLimit(name, 1)
	a := t.open(name).grant(name, share(1, 1))
	b := t.open(name).queue(name, share(1, 1))
	c := t.open(name).queue(name, share(1, 1))
	d := t.open(name).queue(name, share(1, 1))
	t.setLimit(name, 3)
	t.mustHaveHeld(name, b, c)
	t.mustHold(name, a, b, c)
	d.queuedAt(0)
}

func l3RemovingGrants(t *scene) {
	// Removing a stored limit raises it for claims whose own is higher.
	name := t.name("lock")
	t.setLimit(name, 1)
	a := t.open(name).grant(name, share(1, 2))
	b := t.open(name).queue(name, share(1, 2))
	t.setLimit(name, 0)
	t.mustHold(name, a, b)
}

func l3LoweringTakesNothing(t *scene) {
	name := t.name("lock")
	t.setLimit(name, 3)
	s := t.open(name)
	a, b, c := s.grant(name, share(1, 3)), s.grant(name, share(1, 3)), s.grant(name, share(1, 3))
	t.setLimit(name, 1)
	t.mustHold(name, a, b, c)
	s.keepAlive()
	for _, w := range []*request{a, b, c} {
		token := w.token
		w.granted()
		if w.token != token {
			t.fatalf("%v has token %v after the limit was lowered, want %v as before", w, w.token, token)
		}
	}
	for _, w := range []*request{a, b, c} {
		s.want(name, share(1, 3)).busy()
		w.mustFind(driver.WasGranted)
	}
	s.grant(name, share(1, 3))
	s.want(name, share(1, 3)).busy()
}

func l3NoLimit(t *scene) {
	// The limit is for claims with a Limit; the readers of a lock have none.
	name := t.name("lock")
	t.setLimit(name, 1)
	s := t.open(name)
	s.grant(name, shared)
	s.grant(name, shared)
	s.want(name, share(1, 5)).busy()
}

func l4BackOnce(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name, share(1, 2))
	t.open(name).grant(name, share(1, 2))
	a.mustFind(driver.WasGranted)
	a.mustFind(driver.WasAbsent)
	a.mustFind(driver.WasAbsent)
	s := t.open(name)
	s.want(name, share(2, 2)).busy()
	s.grant(name, share(1, 2))
	s.want(name, share(1, 2)).busy()
}

func l5NotOvertaken(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name, share(1, 3))
	b := t.open(name).grant(name, share(1, 3))
	heavy := t.open(name).queue(name, share(3, 3))
	light := t.open(name).queue(name, share(1, 3)) // would fit beside a and b
	t.open(name).want(name, share(1, 3)).busy()
	a.withdraw()
	t.mustHold(name, b)
	light.queuedAt(1)
	b.withdraw()
	t.mustHold(name, heavy)
	light.queuedAt(0)
	heavy.withdraw()
	t.mustHold(name, light)
}

func l6TakesAll(t *scene) {
	name := t.name("lock")
	t.setLimit(name, 2)
	heavy := t.open(name).grant(name, share(5, 5))
	t.open(name).want(name, share(1, 5)).busy()
	heavy.withdraw()
	t.open(name).grant(name, share(1, 5))
}

func l6WaitsForAll(t *scene) {
	name := t.name("lock")
	t.setLimit(name, 2)
	light := t.open(name).grant(name, share(1, 5))
	heavy := t.open(name).queue(name, share(5, 5))
	light.withdraw()
	t.mustHold(name, heavy)
}

func l6LoweredUnderHolders(t *scene) {
	// Holders that are heavier than the limit of now leave no room, and count with
	// their own weight again once the limit allows it.
	name := t.name("lock")
	t.setLimit(name, 8)
	s := t.open(name)
	heavy, light := s.grant(name, share(5, 8)), s.grant(name, share(1, 8))
	t.setLimit(name, 2)
	s.want(name, share(1, 8)).busy()
	light.mustFind(driver.WasGranted)
	s.want(name, share(1, 8)).busy()
	t.setLimit(name, 7)
	s.want(name, share(3, 8)).busy()
	other := s.grant(name, share(2, 8))
	t.mustHold(name, heavy, other)
	t.setLimit(name, 2)
	heavy.mustFind(driver.WasGranted)
	s.want(name, share(1, 8)).busy()
	other.mustFind(driver.WasGranted)
	s.grant(name, share(8, 8))
}

func l6LoweredInTheQueue(t *scene) {
	// A claim that fitted when it came waits for all of a limit that was lowered.
	name := t.name("lock")
	t.setLimit(name, 8)
	a, b := t.open(name).grant(name, share(4, 8)), t.open(name).grant(name, share(4, 8))
	heavy, light := t.open(name).queue(name, share(5, 8)), t.open(name).queue(name, share(1, 8))
	t.setLimit(name, 3)
	a.mustFind(driver.WasGranted)
	t.mustHold(name, b)
	b.mustFind(driver.WasGranted)
	t.mustHold(name, heavy)
	light.queuedAt(0)
	t.setLimit(name, 6)
	t.mustHold(name, heavy, light)
}
