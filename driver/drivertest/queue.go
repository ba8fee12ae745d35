// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

var queueCases = []spec{
	{"Q1", "first come first served", all(queue), q1FirstCome},
	{"Q1", "two claims of one session", all(queue), q1OneSession},
	{"Q2", "leaves", all(queue), q2Leaves},
	{"Q2", "unblocks", all(queue, sharing), q2Unblocks},
	{"Q3", "closed", all(queue), q3Closed},
	{"Q3", "expired", all(queue), q3Expired},
	{"Q3", "holder and first expired", all(queue), q3BothExpired},
	{"Q3", "two that end together", all(queue, holds), q3EndTogether},
	{"Q4", "does not enter", all(queue), q4DoesNotEnter},
	{"Q4", "does not overtake", all(queue, sharing), q4DoesNotOvertake},
	{"Q4", "does not overtake after an end", all(queue), q4NotAfterAnEnd},
	{"Q5", "inside the store", all(queue), q5InsideTheStore},
	{"Q6", "readers together", all(queue, sharing), q6ReadersTogether},
	{"Q6", "no overtaking", all(queue, sharing), q6NoOvertaking},
}

func q1FirstCome(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	stores := []driver.Store{t.store, t.other()}
	var waiters []*request
	for i := range 6 {
		w := t.openOn(stores[i%2], name, t.long).queue(name)
		w.queuedAt(i)
		waiters = append(waiters, w)
	}
	for i, w := range waiters {
		holder.withdraw()
		// The last to poll is the first to be granted if the order is lost.
		for _, behind := range slices.Backward(waiters[i+1:]) {
			behind.queued()
		}
		w.granted()
		holder = w
	}
	holder.withdraw()
	t.mustBeFree(name)
}

func q1OneSession(t *scene) {
	name := t.name("lock")
	s := t.open(name)
	holder := s.grant(name)
	first, second := s.queue(name), s.queue(name)
	holder.withdraw()
	second.queuedAt(0)
	first.granted()
	first.withdraw()
	second.granted()
}

func q2Leaves(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	var waiters []*request
	for range 5 {
		waiters = append(waiters, t.open(name).queue(name))
	}
	for _, i := range []int{0, 2, 4} {
		waiters[i].mustFind(driver.WasQueued)
	}
	waiters[1].queuedAt(0)
	waiters[3].queuedAt(1)
	if st := t.inspect(name); st.Waiting != 2 {
		t.fatalf("got %d claims in the queue, want 2", st.Waiting)
	}
	holder.withdraw()
	waiters[1].granted()
	waiters[1].withdraw()
	waiters[3].granted()
	waiters[3].withdraw()
	t.mustBeFree(name)
}

func q2Unblocks(t *scene) {
	// The front of the queue gives up, and those behind it fit beside the holder.
	name := t.name("lock")
	reader := t.open(name).grant(name, shared)
	writer := t.open(name).queue(name)
	r1, r2 := t.open(name).queue(name, shared), t.open(name).queue(name, shared)
	writer.mustFind(driver.WasQueued)
	t.mustHaveHeld(name, r1, r2)
	t.mustHold(name, reader, r1, r2)
	r1.granted()
	r2.granted()
}

func q3Closed(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	dead := t.open(name)
	dead.queue(name)
	next := t.open(name).queue(name)
	dead.close()
	holder.withdraw()
	t.mustHold(name, next)
}

func q3Expired(t *scene) {
	name := t.name("lock")
	a, c := t.open(name), t.open(name)
	holder := a.grant(name)
	dead := t.openShort(name)
	dead.queue(name)
	next := c.queue(name)
	t.elapseKeeping(dead.ttl+t.slack, a, c)
	holder.withdraw()
	t.mustHold(name, next)
	next.granted()
}

func q3BothExpired(t *scene) {
	name := t.name("lock")
	c, d := t.open(name), t.open(name)
	holder, dead := t.openShort(name), t.openShort(name)
	holder.grant(name)
	dead.queue(name)
	next, last := c.queue(name), d.queue(name)
	t.elapseKeeping(dead.ttl+t.slack, c, d)
	last.queued() // whichever claim polls first, the order stays
	next.granted()
}

// q3EndTogether: each of two sessions that end at once holds what the other waits for.
// Neither may get what the other leaves, or MinHold would keep the lock taken for a
// process that is gone.
func q3EndTogether(t *scene) {
	names := t.neighbors(2)
	c := t.open(names[0])
	a, b := t.openShort(names[0]), t.openShort(names[0])
	a.grant(names[0])
	b.grant(names[1])
	a.queue(names[1], minHold(time.Hour))
	b.queue(names[0], minHold(time.Hour))
	t.elapseKeeping(a.ttl+t.slack, c)
	for _, name := range names {
		st := t.inspect(name)
		for _, h := range st.Holders {
			// A store may have seen the one session's end before the other's.
			if h.Age < t.slack/2 {
				t.fatalf("the claim %v got the lock %v ago, after the end of its session", h.Claim, h.Age)
			}
		}
		if len(st.Holders) == 0 {
			c.grant(name)
		}
	}
}

func q4DoesNotEnter(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	b := t.open(name)
	w := b.want(name)
	for range 3 {
		w.busy()
	}
	if st := t.inspect(name); st.Waiting != 0 {
		t.fatalf("an attempt without Queue left %d claims in the queue", st.Waiting)
	}
	w.mustFind(driver.WasAbsent)
	w = b.want(name)
	w.busy()
	holder.withdraw()
	t.mustBeFree(name)
	w.granted()
}

func q4DoesNotOvertake(t *scene) {
	name := t.name("lock")
	reader := t.open(name).grant(name, shared)
	writer := t.open(name).queue(name)
	late := t.open(name).want(name, shared) // would fit beside the reader
	late.busy()
	t.mustHold(name, reader)
	reader.withdraw()
	late.busy()
	writer.granted()
}

func q4NotAfterAnEnd(t *scene) {
	name := t.name("lock")
	b, c := t.open(name), t.open(name)
	a := t.openShort(name)
	a.grant(name)
	waiting := b.queue(name)
	t.elapseKeeping(a.ttl+t.slack, b, c)
	c.want(name).busy()
	waiting.granted()
}

func q5InsideTheStore(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	next := t.openElsewhere(name).queue(name)
	last := t.open(name).queue(name)
	holder.mustFind(driver.WasGranted)
	// No claim has polled, and the lock already has its next holder.
	t.mustHaveHeld(name, next)
	t.mustHold(name, next)
	t.open(name).want(name).busy()
	last.queuedAt(0)
	next.mustFind(driver.WasGranted)
	t.mustHold(name, last)
}

func q6ReadersTogether(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	r1, r2 := t.open(name).queue(name, shared), t.open(name).queue(name, shared)
	writer := t.open(name).queue(name)
	r3 := t.open(name).queue(name, shared)
	holder.withdraw()
	t.mustHaveHeld(name, r1, r2)
	t.mustHold(name, r1, r2)
	writer.queuedAt(0)
	r3.queuedAt(1)
	r1.withdraw()
	t.mustHold(name, r2)
	r2.withdraw()
	t.mustHold(name, writer)
	writer.withdraw()
	t.mustHold(name, r3)
}

func q6NoOvertaking(t *scene) {
	name := t.name("lock")
	reader := t.open(name).grant(name, shared)
	writer := t.open(name).queue(name)
	late := t.open(name).queue(name, shared)
	late.queuedAt(1)
	t.mustHold(name, reader)
	reader.withdraw()
	late.queuedAt(0)
	t.mustHold(name, writer)
	writer.withdraw()
	late.granted()
}
