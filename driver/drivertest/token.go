// SPDX-License-Identifier: Apache-2.0

package drivertest

import "github.com/fencelock/fencelock/driver"

var tokenCases = []spec{
	{"T1", "rise", all(fencing), t1Rise},
	{"T1", "rise over a promotion", all(fencing, queue), t1RiseOverPromotion},
	{"T1", "rise over an end", all(fencing), t1RiseOverEnd},
	{"T2", "shared grants", all(fencing, sharing), t2SharedGrants},
	{"T2", "shared grants from the queue", all(fencing, sharing, queue), t2FromTheQueue},
	{"T3", "multiples", all(fencing), t3Multiples},
	{"T4", "between", all(fencing), t4Between},
	{"T4", "above shared ones", all(fencing, sharing), t4AboveShared},
	{"T4", "before the next in the queue", all(fencing, queue), t4BeforeTheNext},
	{"T5", "after a loss", all(fencing, reset), t5AfterALoss},
	{"T5", "after a restart", all(fencing, restart), t5AfterARestart},
	{"T5", "after a rewind", all(fencing, rewind), t5AfterARewind},
	{"T5", "after a reclaim", all(fencing, reset, grace), t5AfterAReclaim},
}

// riser checks that tokens come in strictly rising order.
type riser struct {
	t    *scene
	last driver.Token
}

func (r *riser) next(what string, token driver.Token) {
	if token <= r.last {
		r.t.fatalf("%s has token %v, want one above %v", what, token, r.last)
	}
	r.last = token
}

func t1Rise(t *scene) {
	name := t.name("lock")
	r := riser{t: t}
	sessions := []*session{t.open(name), t.openElsewhere(name)}
	for i := range 10 {
		w := sessions[i%2].grant(name)
		r.next("a grant after a withdrawal", w.token)
		w.withdraw()
		// A refused attempt in between must not confuse the counter.
		if i%3 == 0 {
			s := sessions[(i+1)%2]
			w := s.grant(name)
			r.next("a grant to another session", w.token)
			sessions[i%2].want(name).busy()
			w.withdraw()
		}
	}
}

func t1RiseOverPromotion(t *scene) {
	name := t.name("lock")
	r := riser{t: t}
	s := t.open(name)
	holder := t.open(name).grant(name)
	r.next("the first grant", holder.token)
	waiters := []*request{s.queue(name), t.open(name).queue(name), s.queue(name)}
	for _, w := range waiters {
		holder.withdraw()
		w.granted()
		r.next("a grant from the queue", w.token)
		holder = w
	}
	holder.withdraw()
	r.next("a grant after the queue", s.grant(name).token)
}

func t1RiseOverEnd(t *scene) {
	name := t.name("lock")
	r := riser{t: t}
	b := t.open(name)
	a := t.openShort(name)
	r.next("the first grant", a.grant(name).token)
	t.elapseKeeping(a.ttl+t.slack, b)
	w := b.grant(name)
	r.next("a grant after a session's end", w.token)
	b.close()
	r.next("a grant after a close", t.open(name).grant(name).token)
}

func t2SharedGrants(t *scene) {
	name := t.name("lock")
	r := riser{t: t}
	s := t.open(name)
	for range 3 {
		r.next("a shared grant", s.grant(name, shared).token)
		r.next("another session's shared grant", t.open(name).grant(name, shared).token)
	}
}

func t2FromTheQueue(t *scene) {
	name := t.name("lock")
	r := riser{t: t}
	holder := t.open(name).grant(name)
	r.next("the exclusive grant", holder.token)
	var readers []*request
	for range 3 {
		readers = append(readers, t.open(name).queue(name, shared))
	}
	holder.withdraw()
	for _, w := range readers {
		w.granted()
		r.next("a shared grant from the queue", w.token)
	}
}

func t3Multiples(t *scene) {
	check := func(what string, token driver.Token) {
		if token <= 0 || token%driver.TokenStep != 0 {
			t.errorf("%s has token %v, want a positive multiple of %d", what, token, driver.TokenStep)
		}
	}
	name := t.name("lock")
	s := t.open(name)
	for range 3 {
		w := s.grant(name)
		check("a grant", w.token)
		w.withdraw()
	}
	if t.caps.Shared {
		w := s.grant(name, shared)
		check("a shared grant", w.token)
		check("a second shared grant", s.grant(name, shared).token)
		check("a break", t.breakGrant(name, w.token))
	}
}

func t4Between(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name)
	fence := t.breakGrant(name, a.token)
	// The core gives the numbers up to the next step to local handoffs, and
	// the fence must be above those too.
	if fence.Base() <= a.token {
		t.fatalf("Break returned %v, want a token at least a step above %v", fence, a.token)
	}
	b := t.open(name).grant(name)
	if b.token <= fence {
		t.fatalf("the next grant has token %v, want one above the break's %v", b.token, fence)
	}
	second := t.breakGrant(name, b.token)
	if second.Base() <= b.token {
		t.fatalf("the second break returned %v, want a token at least a step above %v", second, b.token)
	}
}

func t4AboveShared(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name, shared)
	b := t.open(name).grant(name, shared)
	fence := t.breakGrant(name, a.token)
	if fence.Base() <= b.token {
		t.fatalf("Break returned %v, want a token above all earlier ones, %v too", fence, b.token)
	}
	if c := t.open(name).grant(name, shared); c.token <= fence {
		t.fatalf("the next grant has token %v, want one above the break's %v", c.token, fence)
	}
}

func t4BeforeTheNext(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name)
	next := t.open(name).queue(name)
	fence := t.breakGrant(name, a.token)
	next.granted()
	if fence.Base() <= a.token || next.token <= fence {
		t.fatalf("tokens are %v, then %v by Break, then %v for the next in the queue; want them to rise", a.token, fence, next.token)
	}
}

func t5AfterALoss(t *scene) { t5(t, t.reset) }

func t5AfterARestart(t *scene) { t5(t, t.restart) }

func t5(t *scene, lose func()) {
	name := t.name("lock")
	r := riser{t: t}
	s := t.open(name)
	for range 3 {
		w := s.grant(name)
		r.next("a grant before the loss", w.token)
		w.withdraw()
	}
	for range 2 {
		// Stores may seed the counter from a clock; no server restarts twice in
		// no time.
		t.elapse(t.slack)
		lose()
		b := t.open(name)
		t.passGrace(name, b)
		w := b.grant(name)
		r.next("the first grant after the loss", w.token)
		w.withdraw()
		w = b.grant(name)
		r.next("the second grant after the loss", w.token)
		w.withdraw()
	}
}

func t5AfterARewind(t *scene) {
	name := t.name("lock")
	r := riser{t: t}
	s := t.open(name)
	rewind := t.checkpoint()
	for range 5 {
		w := s.grant(name)
		r.next("a grant the replica has not seen", w.token)
		w.withdraw()
	}
	t.elapse(t.slack)
	rewind()
	b := t.open(name)
	t.passGrace(name, b)
	r.next("the first grant after the rewind", b.grant(name).token)
}

func t5AfterAReclaim(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name)
	t.reset()
	s := a.s.resume()
	if !s.reclaim(a)[0] {
		t.fatalf("Reclaim during grace was refused")
	}
	t.passGrace(name, s)
	a.on(s).mustFind(driver.WasGranted)
	if b := s.grant(name); b.token <= a.token {
		t.fatalf("the next grant has token %v, want one above the reclaimed %v", b.token, a.token)
	}
}
