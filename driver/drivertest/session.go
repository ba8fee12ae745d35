// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"time"

	"github.com/fencelock/fencelock/driver"
)

var sessionCases = []spec{
	{"S1", "resumes", nil, s1Resumes},
	{"S1", "resumes queued", all(queue), s1ResumesQueued},
	{"S2", "keeps every claim", nil, s2KeepsEveryClaim},
	{"S2", "keeps the queue", all(queue), s2KeepsTheQueue},
	{"S3", "expires", nil, s3Expires},
	{"S3", "counts from the last keep-alive", nil, s3CountsFromTheLast},
	{"S3", "expires for queued claims", all(queue), s3ExpiresForTheQueue},
	{"S4", "not revived", nil, s4NotRevived},
	{"S4", "closed elsewhere", nil, s4ClosedElsewhere},
	{"S5", "frees", nil, s5Frees},
	{"S5", "leaves the queue", all(queue), s5LeavesTheQueue},
	{"S5", "grants to the next", all(queue), s5GrantsToTheNext},
	{"S5", "opened again", all(queue), s5OpenedAgain},
	{"S6", "TTL within bounds", nil, s6Bounds},
	{"S7", "too short", all(minTTL), s7TooShort},
	{"S7", "too long", all(maxTTL), s7TooLong},
	{"S8", "clock", nil, s8Clock},
	{"S9", "lost answer", nil, s9LostAnswer},
	{"S9", "late call", nil, s9LateCall},
}

func s1Resumes(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	w := a.grant(name)
	again := a.resumeOn(t.other())
	if out := w.on(again).granted(); out.Token != w.token {
		t.fatalf("the resumed session's claim has token %v, want %v as before", out.Token, w.token)
	}
	t.open(name).want(name).busy()
	// Both values are the same session: either can keep it and end it.
	a.keepAlive()
	again.keepAlive()
	again.close()
	t.open(name).grant(name)
}

func s1ResumesQueued(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	a := t.open(name)
	first := a.queue(name)
	second := t.open(name).queue(name)
	again := a.resumeOn(t.other())
	first.on(again).queuedAt(0)
	second.queuedAt(1)
	holder.withdraw()
	first.on(again).granted()
}

func s2KeepsEveryClaim(t *scene) {
	names := t.neighbors(4)
	a := t.openShort(names[0])
	var held []*request
	for _, name := range names {
		held = append(held, a.grant(name))
	}
	// Longer than the TTL altogether, shorter each time.
	for range 3 {
		t.elapse(a.ttl * 2 / 3)
		a.keepAlive()
	}
	b := t.open(names[0])
	for _, w := range held {
		b.want(w.claim.Name).busy()
		token := w.token
		w.granted()
		if w.token != token {
			t.fatalf("%v has token %v, want %v as before", w, w.token, token)
		}
	}
}

func s2KeepsTheQueue(t *scene) {
	name := t.name("lock")
	c := t.open(name)
	holder := c.grant(name)
	a := t.openShort(name)
	first := a.queue(name)
	second := t.open(name).queue(name)
	for range 3 {
		t.elapse(a.ttl * 2 / 3)
		a.keepAlive()
	}
	c.keepAlive()
	second.s.keepAlive()
	first.queuedAt(0)
	holder.withdraw()
	first.granted()
	second.queuedAt(0)
}

func s3Expires(t *scene) {
	name := t.name("lock")
	b := t.open(name)
	a := t.openShort(name)
	a.grant(name)
	b.want(name).busy()
	t.elapseKeeping(a.ttl-t.slack, b)
	b.want(name).busy()
	t.elapseKeeping(2*t.slack, b)
	b.want(name).granted()
}

func s3CountsFromTheLast(t *scene) {
	name := t.name("lock")
	b := t.open(name)
	a := t.openShort(name)
	w := a.grant(name)
	t.elapseKeeping(a.ttl/2, b)
	renewal := a.keepAlive()
	t.elapseKeeping(renewal.TTL-t.slack, b)
	b.want(name).busy()
	t.mustHold(name, w)
	t.elapseKeeping(2*t.slack, b)
	b.want(name).granted()
}

func s3ExpiresForTheQueue(t *scene) {
	name := t.name("lock")
	b, c := t.open(name), t.open(name)
	a := t.openShort(name)
	a.grant(name)
	first, second := b.queue(name), c.queue(name)
	t.elapseKeeping(a.ttl-t.slack, b, c)
	first.queuedAt(0)
	t.elapseKeeping(2*t.slack, b, c)
	second.queued() // whichever claim polls first, the order stays
	first.granted()
}

func s4NotRevived(t *scene) {
	name := t.name("lock")
	b := t.open(name)
	a := t.openShort(name)
	w := a.grant(name)
	t.elapseKeeping(a.ttl+t.slack, b)
	mustBeGone(t, a, w)
	mustBeGone(t, a, w) // the first answers must not have revived it
	t.mustBeFree(name)
	mine := b.grant(name)
	mustBeGone(t, a, w)
	t.mustHold(name, mine)
}

func s4ClosedElsewhere(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	w := a.grant(name)
	a.resumeOn(t.other()).close()
	mustBeGone(t, a, w)
	mine := t.open(name).grant(name)
	mustBeGone(t, a, w)
	t.mustHold(name, mine)
}

// mustBeGone fails unless the session answers ErrGone to KeepAlive, to the
// attempt of an old claim and to that of a new one.
func mustBeGone(t *scene, s *session, old *request) {
	ctx, cancel := t.bounded()
	defer cancel()
	_, err := s.d.KeepAlive(ctx)
	t.wantErr("KeepAlive of an ended session", err, driver.ErrGone)
	for _, w := range []*request{old, s.want(old.claim.Name), s.want(old.claim.Name, queueing)} {
		out, err := s.d.Attempt(ctx, &w.claim)
		t.wantErr("Attempt on an ended session", err, driver.ErrGone)
		if out.State == driver.Granted {
			t.errorf("Attempt on an ended session answered granted")
		}
	}
}

func s5Frees(t *scene) {
	names := t.neighbors(3)
	a := t.open(names[0])
	for _, name := range names {
		a.grant(name)
	}
	b := t.open(names[0])
	b.want(names[0]).busy()
	a.close()
	for _, name := range names {
		t.mustBeFree(name)
		b.grant(name)
	}
	a.close() // Close is the one method that may be called again
}

func s5LeavesTheQueue(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	a := t.open(name)
	a.queue(name)
	second := t.open(name).queue(name)
	a.close()
	second.queuedAt(0)
	if st := t.inspect(name); st.Waiting != 1 || len(st.Waiters) != 1 || st.Waiters[0].Claim != second.id() {
		t.fatalf("got %d waiting %v, want only %v", st.Waiting, st.Waiters, second)
	}
	holder.withdraw()
	second.granted()
}

func s5GrantsToTheNext(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	a.grant(name)
	next := t.open(name).queue(name)
	a.close()
	t.mustHaveHeld(name, next)
	t.open(name).want(name).busy()
	next.granted()
}

// s5OpenedAgain: an Open and an attempt that arrive after the Close, as messages of
// a network that delayed them, do not bring the claim back to where it was.
func s5OpenedAgain(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	held := a.grant(name, queueing)
	queued := a.queue(name)
	next := t.open(name).queue(name)
	last := t.open(name).queue(name)
	a.close()
	next.granted()
	again := a.resumeOn(t.other())
	for _, late := range []*request{held.on(again), queued.on(again)} {
		if out := late.attempt(); out.State == driver.Granted {
			t.fatalf("late attempt of %v: granted beside %v", late, next)
		}
	}
	t.mustHold(name, next)
	last.queuedAt(0)
	next.withdraw()
	last.granted()
}

func s6Bounds(t *scene) {
	name := t.name("lock")
	check := func(what string, ttl time.Duration) {
		if ttl <= 0 || ttl < t.caps.MinTTL || t.caps.MaxTTL > 0 && ttl > t.caps.MaxTTL {
			t.errorf("%s answered with a TTL of %v, want a positive one within %v and %v (0 is no bound)",
				what, ttl, t.caps.MinTTL, t.caps.MaxTTL)
		}
	}
	for _, s := range []*session{t.open(name), t.openShort(name)} {
		check("Open", s.ttl)
		check("KeepAlive", s.keepAlive().TTL)
		check("Open of an open session", s.resume().ttl)
	}
}

func s7TooShort(t *scene) { mustRefuseTTL(t, t.caps.MinTTL/2) }

func s7TooLong(t *scene) { mustRefuseTTL(t, t.caps.MaxTTL*2) }

func mustRefuseTTL(t *scene, ttl time.Duration) {
	ctx, cancel := t.bounded()
	defer cancel()
	s, _, err := t.store.Open(ctx, driver.OpenRequest{
		Shard: t.store.Shard(t.name("lock")), ID: driver.NewSessionID(), TTL: ttl,
	})
	if err == nil {
		s.Close(ctx)
	}
	t.wantErr("Open with a TTL of "+ttl.String(), err, driver.ErrRefused)
}

func s8Clock(t *scene) {
	s := t.open(t.name("lock"))
	before := time.Now()
	first := s.keepAlive().Clock
	if first.IsZero() {
		return // it does not report one
	}
	t.elapse(t.short / 2)
	second := s.keepAlive().Clock
	took := time.Since(before) + t.short/2 // a store's clock may be moved by Elapse, ours not
	if d := second.Sub(first); d < t.short/2-t.slack || d > took+t.slack {
		t.errorf("the store's clock advanced by %v between two calls, want %v to %v", d, t.short/2, took)
	}
}

// alien is a session of a store that no store under test knows.
type alien struct{ driver.Session }

func s9LostAnswer(t *scene) {
	name := t.name("lock")
	a, b := t.open(name), t.open(name)
	var terms []term
	if t.store.Caps().Queue { // as a caller that waits: some stores grant that in another way
		terms = append(terms, queueing)
	}
	for _, before := range []driver.Session{nil, alien{}, b.d} { // the answer to the first Open was lost
		a = a.resumeWith(t.store, before)
	}
	w := a.grant(name, terms...)
	for range 2 {
		a.resumeWith(t.store, a.d) // the answer is lost
		again := a.resumeWith(t.store, a.d)
		if out := w.on(again).attempt(); out.State != driver.Granted || out.Token != w.token {
			t.fatalf("opened again: the claim is %v with token %v, want it granted with %v", out.State, out.Token, w.token)
		}
		again.keepAlive()
		b.want(name).busy()
		a = again
	}
	b.keepAlive()
	w.on(a).mustFind(driver.WasGranted)
	b.grant(name)
}

func s9LateCall(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	late := a.want(name)
	again := a.resume()
	ctx, cancel := t.bounded()
	defer cancel()
	c := late.claim
	_, _ = a.d.Attempt(ctx, &c) // the store may answer that it was reset
	_, _ = a.d.KeepAlive(ctx)
	if ctx.Err() != nil {
		t.fatalf("calls on the value of before did not return")
	}
	late.on(again).remove(driver.Withdrawal{Tombstone: true})
	again.keepAlive()
	t.open(name).grant(name)
}
