// SPDX-License-Identifier: Apache-2.0

package drivertest

import "github.com/fencelock/fencelock/driver"

// dropCases are about the end of a reclaim: what the session does not know of is
// dropped, what it has shown to know of is kept.
var dropCases = []spec{
	{"R6", "dropped", all(restart), r6Dropped},
	{"R6", "lost release", all(rewind), r6LostRelease},
	{"R6", "lost release, locked again", all(rewind), r6LockedAgain},
	{"R6", "several batches", all(restart), r6Batches},
	{"R6", "granted to the next", all(restart, queue), r6GrantedToTheNext},
	{"R6", "attempted", all(restart), r6Attempted},
	{"R6", "attempted with shared terms", all(restart, sharing), r6AttemptedWithSharedTerms},
}

func r6Dropped(t *scene) {
	names := t.neighbors(3)
	s := t.open(names[0])
	var held []*request
	for _, name := range names {
		held = append(held, s.grant(name))
	}
	t.restart()
	again, b := s.resume(), t.open(names[0])
	t.mustReclaim(again, true, yes, held[1])
	t.mustHold(names[1], held[1])
	t.mustBeFree(names[0])
	t.mustBeFree(names[2])
	t.passGrace(names[0], again, b)
	b.want(names[1]).busy()
	b.grant(names[0])
}

func r6Batches(t *scene) {
	names := t.neighbors(3)
	s := t.open(names[0])
	a, b, c := s.grant(names[0]), s.grant(names[1]), s.grant(names[2])
	t.restart()
	again := s.resume()
	t.mustReclaim(again, false, yes, a)
	t.mustHold(names[1], b) // only the last batch drops anything
	t.mustReclaim(again, false, yes, b)
	t.mustReclaim(again, true, nil)
	t.mustHold(names[0], a)
	t.mustHold(names[1], b)
	t.mustBeFree(c.claim.Name)
	// A grant from after the loss is not an earlier one.
	t.passGrace(names[0], again)
	w := again.grant(names[2])
	t.mustReclaim(again, true, []bool{true, true}, a, b)
	t.mustHold(names[2], w)
}

func r6GrantedToTheNext(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name)
	t.restart()
	s, b := a.s.resume(), t.open(name)
	next := b.want(name, queueing)
	next.attempt()
	t.mustReclaim(s, true, nil)
	t.passGrace(name, s, b)
	next.granted()
	t.mustHold(name, next)
}

func r6LostRelease(t *scene) {
	name := t.name("lock")
	s := t.open(name)
	a := s.grant(name)
	rewind := t.checkpoint()
	a.withdraw()
	rewind()
	again := s.resume()
	t.mustReclaim(again, true, nil)
	t.mustBeFree(name)
	t.passGrace(name, again)
	t.open(name).grant(name)
}

func r6LockedAgain(t *scene) {
	// To ask for the newer grant of a lock is not to reclaim the older one. Whether
	// the newer one comes back or not, with or without grace, the older one must not
	// stay: its session will never withdraw it.
	name := t.name("lock")
	s := t.open(name)
	old := s.grant(name)
	rewind := t.checkpoint()
	old.withdraw()
	newer := s.grant(name)
	rewind()
	again, b := s.resume(), t.open(name)
	if kept := again.reclaimBatch(true, newer)[0]; kept {
		t.mustHold(name, newer)
		newer.on(again).withdraw()
	}
	t.mustBeFree(name)
	t.passGrace(name, again, b)
	b.grant(name)
}

func r6Attempted(t *scene) {
	// The answer to the attempt got lost with the incarnation, so the session
	// has nothing to reclaim; it asks again, and holds what it finds.
	names := t.neighbors(3)
	s := t.open(names[0])
	var held []*request
	for _, name := range names {
		held = append(held, s.grant(name))
	}
	t.restart()
	again, b := s.resume(), t.open(names[0])
	found := held[0].on(again)
	found.granted()
	if found.token != held[0].token {
		t.fatalf("the attempt got token %v, want %v as before", found.token, held[0].token)
	}
	t.mustReclaim(again, false, yes, held[1])
	t.mustReclaim(again, true, nil)
	t.mustHold(names[0], held[0])
	t.mustHold(names[1], held[1])
	t.mustBeFree(names[2])
	t.passGrace(names[0], again, b)
	b.want(names[0]).busy()
	found.mustFind(driver.WasGranted)
	b.grant(names[0])
}

func r6AttemptedWithSharedTerms(t *scene) {
	// A downgrade (O6) that crosses the loss is such an attempt, too.
	name := t.name("lock")
	a := t.open(name).grant(name)
	t.restart()
	s := a.s.resume()
	a = a.on(s)
	downgrade(t, a)
	t.mustReclaim(s, true, nil)
	t.mustHold(name, a)
}
