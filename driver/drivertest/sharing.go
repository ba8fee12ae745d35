// SPDX-License-Identifier: Apache-2.0

package drivertest

import "github.com/fencelock/fencelock/driver"

// sharingCases are the ownership clauses about one grant that changes or is
// joined.
var sharingCases = []spec{
	{"O5", "joins", all(reentry), o5Joins},
	{"O5", "last one frees", all(reentry), o5LastFrees},
	{"O5", "outlives a session", all(reentry), o5OutlivesSession},
	{"O5", "skips the queue", all(reentry, queue), o5SkipsTheQueue},
	{"O5", "skips a long queue", all(reentry, queue), o5SkipsALongQueue},
	{"O5", "joins from the queue", all(reentry, queue), o5JoinsFromTheQueue},
	{"O5", "joins from the end of a long queue", all(reentry, queue), o5JoinsFromALongQueue},
	{"O5", "exclusive only", all(reentry, sharing), o5ExclusiveOnly},
	{"O6", "downgrades", all(sharing), o6Downgrades},
	{"O6", "lets readers in", all(sharing, queue), o6LetsReadersIn},
	{"O6", "behind a writer", all(sharing, queue), o6BehindAWriter},
}

func o5Joins(t *scene) {
	name := t.name("lock")
	s := t.open(name)
	a := s.grant(name, joining("me"))
	b := s.grant(name, joining("me"))
	c := t.openElsewhere(name).grant(name, joining("me"))
	if b.token != a.token || c.token != a.token {
		t.fatalf("claims of one Reentry have tokens %v, %v and %v, want one", a.token, b.token, c.token)
	}
	other := t.open(name)
	other.want(name).busy()
	other.want(name, joining("you")).busy()
	other.want(name, joining("m")).busy()
	t.mustHold(name, a, b, c)
}

func o5LastFrees(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name, joining("me"))
	b := t.open(name).grant(name, joining("me"))
	other := t.open(name).want(name)
	a.mustFind(driver.WasGranted)
	other.busy()
	a.mustFind(driver.WasAbsent)
	other.busy()
	b.mustFind(driver.WasGranted)
	other.granted()
	if t.caps.Fencing != driver.NoFencing && other.token <= a.token {
		t.errorf("the next grant has token %v, want one above %v", other.token, a.token)
	}
	other.withdraw()
	// The same Reentry later is another grant.
	c := t.open(name).grant(name, joining("me"))
	if t.caps.Fencing != driver.NoFencing && c.token <= other.token {
		t.errorf("the Reentry came back with token %v, want one above %v", c.token, other.token)
	}
}

func o5OutlivesSession(t *scene) {
	name := t.name("lock")
	s := t.open(name)
	a := s.grant(name, joining("me"))
	b := t.open(name).grant(name, joining("me"))
	s.close()
	other := t.open(name).want(name)
	other.busy()
	b.granted()
	if b.token != a.token {
		t.fatalf("the remaining claim has token %v, want %v as before", b.token, a.token)
	}
	b.withdraw()
	other.granted()
}

func o5SkipsTheQueue(t *scene) {
	// A claim that waits for its own Reentry to end while it holds the lock waits forever.
	name := t.name("lock")
	a := t.open(name).grant(name, joining("me"))
	other := t.open(name).queue(name)
	b := t.open(name).grant(name, joining("me"))
	c := t.open(name).grant(name, joining("me"), queueing)
	if b.token != a.token || c.token != a.token {
		t.fatalf("claims of one Reentry have tokens %v, %v and %v, want one", a.token, b.token, c.token)
	}
	a.withdraw()
	b.withdraw()
	other.queuedAt(0)
	c.withdraw()
	other.granted()
}

// longQueue is longer than what a store may read of a queue at once.
const longQueue = 30

// crowd queues many claims of a few sessions.
func crowd(t *scene, name string) (waiting []*request) {
	var s *session
	for i := range longQueue {
		if i%6 == 0 {
			s = t.open(name)
		}
		waiting = append(waiting, s.queue(name))
	}
	return waiting
}

func o5SkipsALongQueue(t *scene) {
	// A store that reads only the front of the queue must see that the claim does not belong there.
	name := t.name("lock")
	a := t.open(name).grant(name, joining("me"))
	waiting := crowd(t, name)
	b := t.open(name).grant(name, joining("me"))
	c := t.open(name).grant(name, joining("me"), queueing)
	if b.token != a.token || c.token != a.token {
		t.fatalf("claims of one Reentry have tokens %v, %v and %v, want one", a.token, b.token, c.token)
	}
	t.open(name).want(name, joining("you")).busy()
	a.withdraw()
	b.withdraw()
	waiting[0].queuedAt(0)
	c.withdraw()
	t.mustHold(name, waiting[0])
}

func o5JoinsFromALongQueue(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	a := t.open(name).queue(name, joining("me"))
	waiting := crowd(t, name)
	b := t.open(name).queue(name, joining("me"))
	holder.withdraw()
	a.granted()
	if b.granted().Token != a.token {
		t.fatalf("claims of one Reentry have tokens %v and %v, want one", a.token, b.token)
	}
	t.mustHold(name, a, b)
	a.withdraw()
	b.withdraw()
	t.mustHold(name, waiting[0])
}

func o5JoinsFromTheQueue(t *scene) {
	// The claim of the same Reentry came into the queue before its Reentry held the
	// lock, behind another claim. It may have to ask again, but not to wait.
	name := t.name("lock")
	holder := t.open(name).grant(name)
	a := t.open(name).queue(name, joining("me"))
	other := t.open(name).queue(name)
	b := t.open(name).queue(name, joining("me"))
	holder.withdraw()
	a.granted()
	if b.granted().Token != a.token {
		t.fatalf("claims of one Reentry have tokens %v and %v, want one", a.token, b.token)
	}
	t.mustHold(name, a, b)
	other.queuedAt(0)
	a.withdraw()
	b.withdraw()
	t.mustHold(name, other)
}

func o5ExclusiveOnly(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name, joining("me"))
	s := t.open(name)
	s.want(name, joining("me"), shared).busy()
	a.withdraw()
	r := s.grant(name, joining("me"), shared)
	s.want(name, joining("me")).busy()
	if b := s.grant(name, joining("me"), shared); b.token == r.token && t.caps.Fencing != driver.NoFencing {
		t.fatalf("two shared grants have the token %v", r.token)
	}
}

// downgrade attempts an exclusive grant again with shared terms.
func downgrade(t *scene, w *request) {
	terms := *w.claim.Terms
	terms.Mode = driver.Shared
	w.claim.Terms = &terms
	token := w.token
	w.granted()
	if w.token != token {
		t.fatalf("the downgraded claim has token %v, want %v as before", w.token, token)
	}
}

func o6Downgrades(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name)
	s := t.open(name)
	s.want(name, shared).busy()
	downgrade(t, a)
	if st := t.inspect(name); len(st.Holders) != 1 || st.Holders[0].Mode != driver.Shared {
		t.fatalf("got holders %v after a downgrade, want one that is shared", st.Holders)
	}
	s.want(name).busy()
	b := s.grant(name, shared)
	a.mustFind(driver.WasGranted)
	s.want(name).busy()
	b.withdraw()
	s.grant(name)
}

func o6LetsReadersIn(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name)
	r1, r2 := t.open(name).queue(name, shared), t.open(name).queue(name, shared)
	writer := t.open(name).queue(name)
	r3 := t.open(name).queue(name, shared)
	downgrade(t, a)
	t.mustHaveHeld(name, r1, r2)
	t.mustHold(name, a, r1, r2)
	writer.queuedAt(0)
	r3.queuedAt(1)
	for _, w := range []*request{a, r2, r1} {
		writer.queuedAt(0)
		w.mustFind(driver.WasGranted)
	}
	writer.granted()
	r3.queuedAt(0)
	writer.withdraw()
	r3.granted()
}

func o6BehindAWriter(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name)
	writer := t.open(name).queue(name)
	reader := t.open(name).queue(name, shared)
	downgrade(t, a)
	t.mustHold(name, a)
	reader.queuedAt(1)
	t.open(name).want(name, shared).busy()
	a.withdraw()
	writer.granted()
}
