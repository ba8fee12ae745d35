// SPDX-License-Identifier: Apache-2.0

package drivertest

import "github.com/fencelock/fencelock/driver"

// floorCases are the clauses of a store that can be a node of a quorum.
var floorCases = []spec{
	{"T6", "not below", all(floor), t6NotBelow},
	{"T6", "below what was", all(floor), t6BelowWhatWas},
	{"T6", "refused", all(floor), t6Refused},
	{"T6", "from the queue", all(floor, queue), t6FromTheQueue},
	{"T6", "shared", all(floor, sharing), t6Shared},
	{"T6", "held already", all(floor), t6HeldAlready},
	{"T7", "lifts", all(floor), t7Lifts},
	{"T7", "lifts once", all(floor), t7LiftsOnce},
	{"T7", "beside a newer one", all(floor, sharing), t7BesideNewer},
	{"T7", "all that share it", all(floor, reentry), t7AllThatShareIt},
	{"T7", "joining is not being granted already", all(floor, reentry), t7Joining},
	{"T8", "busy", all(floor), t8Busy},
	{"T8", "queued", all(floor, queue), t8Queued},
	{"T8", "released", all(floor, sharing), t8Released},
}

// above asks for a token not below that of another request plus so many steps.
func above(w *request, steps int64) term {
	return func(c *driver.Claim) { c.Floor = w.token + driver.Token(steps*driver.TokenStep) }
}

// lowest asks for the lowest Floor there is.
func lowest(c *driver.Claim) { c.Floor = driver.TokenStep }

func lift(c *driver.Claim) { c.Lift = true }

// again attempts a request with other terms and must be granted.
func (w *request) again(terms ...term) driver.Token {
	for _, f := range terms {
		f(&w.claim)
	}
	return w.granted().Token
}

// used returns a request that was granted and withdrawn.
func (t *scene) used(name string) *request {
	w := t.open(name).grant(name)
	w.withdraw()
	return w
}

// mustReach fails unless a token is at least floor, and a proper one.
func (t *scene) mustReach(what string, token, floor driver.Token) {
	if token < floor || token%driver.TokenStep != 0 {
		t.fatalf("%s has token %v, want a multiple of %d that is at least %v", what, token, driver.TokenStep, floor)
	}
}

func t6NotBelow(t *scene) {
	name := t.name("lock")
	old := t.used(name)
	w := t.open(name).grant(name, above(old, 1000))
	t.mustReach("a grant with a Floor", w.token, w.claim.Floor)
	w.withdraw()
	next := t.openElsewhere(name).grant(name)
	if next.token <= w.token {
		t.fatalf("the next grant has token %v, want one above %v", next.token, w.token)
	}
}

func t6BelowWhatWas(t *scene) {
	name := t.name("lock")
	old := t.used(name)
	for _, floor := range []term{lowest, above(old, 0)} {
		w := t.open(name).grant(name, floor)
		if w.token <= old.token {
			t.fatalf("a Floor of %v gave token %v, want one above %v", w.claim.Floor, w.token, old.token)
		}
		w.withdraw()
		old = w
	}
}

func t6Refused(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	w := t.open(name).want(name, above(holder, 1000))
	w.busy()
	holder.withdraw()
	next := t.open(name).grant(name)
	t.mustReach("a grant after a refused attempt with a Floor", next.token, w.claim.Floor)
}

func t6FromTheQueue(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	first := t.open(name).queue(name, above(holder, 1000))
	second := t.open(name).queue(name)
	holder.withdraw()
	t.mustReach("a grant from the queue", first.granted().Token, first.claim.Floor)
	first.withdraw()
	second.granted()
	if second.token <= first.token {
		t.fatalf("the second in the queue has token %v, want one above %v", second.token, first.token)
	}
}

func t6Shared(t *scene) {
	name := t.name("lock")
	r := riser{t: t}
	first := t.open(name).grant(name, shared)
	r.next("a shared grant", first.token)
	w := t.open(name).grant(name, shared, above(first, 1000))
	t.mustReach("a shared grant with a Floor", w.token, w.claim.Floor)
	r.next("a shared grant with a Floor", w.token)
	r.next("a shared grant without", t.open(name).grant(name, shared).token)
}

func t6HeldAlready(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	token := w.token
	if got := w.again(above(w, 1000)); got != token {
		t.fatalf("a Floor without Lift changed the token from %v to %v", token, got)
	}
	w.withdraw()
	t.mustReach("the next grant", t.open(name).grant(name).token, w.claim.Floor)
}

func t7Lifts(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	floor := w.token + 1000*driver.TokenStep
	t.mustReach("a lifted grant", w.again(above(w, 1000), lift), floor)
	t.mustHold(name, w) // with its new token
	t.open(name).want(name).busy()
	w.mustFind(driver.WasGranted)
	if next := t.open(name).grant(name); next.token <= w.token {
		t.fatalf("the next grant has token %v, want one above the lifted %v", next.token, w.token)
	}
}

func t7LiftsOnce(t *scene) {
	// The same request again, as after a lost reply, changes nothing.
	name := t.name("lock")
	w := t.open(name).grant(name)
	first := w.again(above(w, 1000), lift)
	if got := w.granted().Token; got != first {
		t.fatalf("the same lift again changed the token from %v to %v", first, got)
	}
}

func t7BesideNewer(t *scene) {
	// A token is given out once, even if a lift asks for the token of a newer grant.
	name := t.name("lock")
	a := t.open(name).grant(name, shared)
	b := t.open(name).grant(name, shared)
	if got := a.again(above(b, 0), lift); got <= b.token {
		t.fatalf("a grant was lifted to %v beside one with %v, want a different token above it", got, b.token)
	}
}

func t7AllThatShareIt(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name, joining("me"))
	b := t.open(name).grant(name, joining("me"))
	lifted := a.again(above(a, 1000), lift)
	if got := b.granted().Token; got != lifted {
		t.fatalf("a grant was lifted to %v, and the claim that shares it has %v", lifted, got)
	}
}

func t7Joining(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name, joining("me"))
	b := t.open(name).grant(name, joining("me"), above(a, 1000), lift)
	if again := a.granted().Token; b.token != again || again != a.token {
		t.fatalf("a claim joined a grant of token %v with %v and left it with %v", a.token, b.token, again)
	}
}

// mustReturn fails unless an attempt that was not granted returns at least a token.
func (t *scene) mustReturn(out driver.Outcome, token driver.Token) {
	if out.Token < token {
		t.fatalf("a %v answer has token %v, want at least %v", out.State, out.Token, token)
	}
}

func t8Busy(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	t.mustReturn(t.open(name).want(name, lowest).busy(), holder.token)
}

func t8Queued(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	t.mustReturn(t.open(name).queue(name, lowest).queued(), holder.token)
}

func t8Released(t *scene) {
	// A reader that is gone had the highest token.
	name := t.name("lock")
	t.open(name).grant(name, shared)
	gone := t.open(name).grant(name, shared)
	gone.withdraw()
	t.mustReturn(t.open(name).want(name, lowest).busy(), gone.token)
}
