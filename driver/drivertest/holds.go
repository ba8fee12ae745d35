// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"time"

	"github.com/fencelock/fencelock/driver"
)

var holdCases = []spec{
	{"H1", "ends", all(holds), h1Ends},
	{"H1", "remaining", all(holds), h1Remaining},
	{"H1", "granted from the queue", all(holds, queue), h1FromTheQueue},
	{"H1", "grants to the next", all(holds, queue), h1GrantsToTheNext},
	{"H1", "not in a push", all(holds, queue, push), h1NotInAPush},
	{"H2", "withdrawn", all(holds), h2Withdrawn},
	{"H2", "with a queue", all(holds, queue), h2WithAQueue},
	{"H2", "over already", all(holds), h2OverAlready},
	{"H3", "closed", all(holds), h3Closed},
	{"H3", "expired", all(holds), h3Expired},
	{"H4", "kept", all(holds), h4Kept},
	{"H4", "not re-entered", all(holds, reentry), h4NotReentered},
	{"H4", "kept from the queue", all(holds, queue), h4KeptFromTheQueue},
}

func h1Ends(t *scene) {
	name := t.name("lock")
	hold := t.short
	a, b := t.open(name), t.open(name)
	a.grant(name, maxHold(hold))
	t.elapseKeeping(hold-t.slack, a, b)
	b.want(name).busy()
	t.elapseKeeping(2*t.slack, a, b)
	b.want(name).granted()
	a.keepAlive() // only the grant has ended
}

func h1Remaining(t *scene) {
	name := t.name("lock")
	hold := t.short
	a := t.open(name)
	w := a.want(name, maxHold(hold))
	check := func(what string, got, atMost time.Duration) {
		if got <= 0 || got > atMost {
			t.errorf("%s answered that %v remain, want more than 0 and at most %v", what, got, atMost)
		}
	}
	check("the granting attempt", w.granted().Remaining, hold)
	t.elapseKeeping(hold/2, a)
	check("a repeated attempt", w.granted().Remaining, hold/2)
	plain := t.open(name + "/plain").grant(name + "/plain")
	if got := plain.granted().Remaining; got != 0 {
		t.errorf("a claim without MaxHold has Remaining %v", got)
	}
}

func h1FromTheQueue(t *scene) {
	// The time counts from the grant, not from queueing.
	name := t.name("lock")
	hold := t.short
	a, b := t.open(name), t.open(name)
	holder := a.grant(name)
	w := b.queue(name, maxHold(hold))
	t.elapseKeeping(hold, a, b)
	holder.withdraw()
	if got := w.granted().Remaining; got > hold || got < hold-t.slack {
		t.fatalf("just granted, it has Remaining %v of %v", got, hold)
	}
	t.elapseKeeping(hold-t.slack, a, b)
	a.want(name).busy()
	t.elapseKeeping(2*t.slack, a, b)
	a.want(name).granted()
}

func h1GrantsToTheNext(t *scene) {
	name := t.name("lock")
	hold := t.short
	a, b, c := t.open(name), t.open(name), t.open(name)
	a.grant(name, maxHold(hold))
	next, last := b.queue(name), c.queue(name)
	t.elapseKeeping(hold+t.slack, a, b, c)
	last.queued()
	next.granted()
}

// keptUntil checks that no claim gets the lock until rest has passed, by the
// store's clock, and that s gets it then.
func (t *scene) keptUntil(name string, s *session, rest time.Duration) {
	s.want(name).busy()
	t.elapseKeeping(rest-t.slack, s)
	s.want(name).busy()
	t.elapseKeeping(2*t.slack, s)
	s.want(name).granted()
}

func h1NotInAPush(t *scene) {
	// A store cannot know how long a push travels, so only an Attempt returns the rest.
	name := t.name("lock")
	holder := t.open(name).grant(name)
	w := t.open(name).queue(name, maxHold(t.short))
	holder.withdraw()
	if rest := w.await().Remaining; rest != 0 {
		t.errorf("Await returned Remaining %v, want 0", rest)
	}
	if rest := w.granted().Remaining; rest <= 0 {
		t.errorf("Attempt returned Remaining %v, want more than 0", rest)
	}
}

func h2Withdrawn(t *scene) {
	name := t.name("lock")
	b := t.open(name)
	w := t.open(name).grant(name, minHold(t.short))
	w.mustFind(driver.WasGranted)
	w.mustFind(driver.WasAbsent)
	t.keptUntil(name, b, t.short)
}

func h2WithAQueue(t *scene) {
	name := t.name("lock")
	b := t.open(name)
	holder := t.open(name).grant(name, minHold(t.short))
	w := b.queue(name)
	holder.withdraw()
	w.queuedAt(0)
	t.elapseKeeping(t.short-t.slack, b)
	w.queuedAt(0)
	t.elapseKeeping(2*t.slack, b)
	w.granted()
}

func h2OverAlready(t *scene) {
	name := t.name("lock")
	a, b := t.open(name), t.open(name)
	w := a.grant(name, minHold(t.short))
	t.elapseKeeping(t.short+t.slack, a, b)
	b.want(name).busy() // still held: MinHold is the least
	w.mustFind(driver.WasGranted)
	b.want(name).granted()
}

func h3Closed(t *scene) {
	name := t.name("lock")
	a, b := t.open(name), t.open(name)
	a.grant(name, minHold(t.short))
	a.close()
	t.keptUntil(name, b, t.short)
}

func h3Expired(t *scene) {
	name := t.name("lock")
	b := t.open(name)
	a := t.openShort(name)
	a.grant(name, minHold(2*a.ttl))
	t.elapseKeeping(a.ttl+t.slack, b)
	t.keptUntil(name, b, a.ttl-t.slack)
}

func h4Kept(t *scene) {
	name := t.name("lock")
	b := t.open(name)
	w := t.open(name).grant(name)
	w.compareFound(w.remove(driver.Withdrawal{KeepFor: t.short}), driver.WasGranted)
	st := t.inspect(name)
	if len(st.Holders) != 1 || !st.Holders[0].Kept {
		t.fatalf("got holders %v of a lock that is only kept, want one with Kept set", st.Holders)
	}
	// The core finds its own mark by the token after a failover.
	if got := st.Holders[0].Token; got.Base() != w.token.Base() {
		t.errorf("the kept lock has token %v, want that of the grant, %v", got, w.token)
	}
	if in := st.Holders[0].EndsIn; in <= 0 || in > t.short {
		t.errorf("the kept lock ends in %v, want more than 0 and at most %v", in, t.short)
	}
	for _, h := range b.want(name).busy().Holders {
		if !h.Kept {
			t.errorf("a busy answer has holder %v without Kept, the lock is only kept", h.Claim)
		}
	}
	w.mustFind(driver.WasAbsent) // a repeated withdrawal does not free it
	t.keptUntil(name, b, t.short)
}

func h4NotReentered(t *scene) {
	// No claim holds a kept lock, so there is nothing to join.
	name := t.name("lock")
	b := t.open(name)
	b.grant(name, joining("me")).remove(driver.Withdrawal{KeepFor: t.short})
	b.want(name, joining("me")).busy()
	t.keptUntil(name, b, t.short)
}

func h4KeptFromTheQueue(t *scene) {
	name := t.name("lock")
	b := t.open(name)
	holder := t.open(name).grant(name)
	w := b.queue(name)
	holder.remove(driver.Withdrawal{KeepFor: t.short})
	t.elapseKeeping(t.short-t.slack, b)
	w.queuedAt(0)
	t.elapseKeeping(2*t.slack, b)
	w.granted()
	if st := t.inspect(name); len(st.Holders) != 1 || st.Holders[0].Kept {
		t.fatalf("got holders %v, want the one from the queue and nothing kept", st.Holders)
	}
}
