// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"slices"

	"github.com/fencelock/fencelock/driver"
)

var reclaimCases = []spec{
	{"R3", "put back", all(reset, grace), r3PutBack},
	{"R3", "keeps others out", all(reset, grace), r3KeepsOthersOut},
	{"R3", "shared", all(reset, grace, limits), r3Shared},
	{"R3", "shared with other limits", all(reset, grace, limits), r3OtherLimits},
	{"R3", "shared with a stored limit", all(reset, grace, limits), r3StoredLimit},
	{"R3", "re-entered", all(reset, grace, reentry), r3Reentered},
	{"R3", "attempted first", all(reset, grace, queue), r3AttemptedFirst},
	{"R3", "after a rewind", all(rewind, grace), r3AfterARewind},
	{"R3", "over a lost release", all(rewind, grace), r3OverALostRelease},
	{"R3", "over its own lost release", all(rewind, grace), r3OverItsOwnRelease},
	{"R4", "beside", nil, r4Beside},
	{"R4", "after", nil, r4After},
	{"R4", "expired", nil, r4Expired},
	{"R4", "beside a reclaimed one", all(reset, grace), r4BesideReclaimed},
	{"R4", "after a reclaimed one", all(reset, grace), r4AfterReclaimed},
	{"R4", "beside its own Reentry", all(reset, grace, reentry), r4BesideItsReentry},
	{"R4", "never two", all(reset, grace), r4NeverTwo},
	{"R4", "after the loss", all(reset), r4AfterTheLoss},
	{"R4", "under a lost release", all(rewind, grace), r4UnderALostRelease},
	{"R4", "without grace", all(reset, noGrace), r4WithoutGrace},
	{"R5", "nothing lost", nil, r5NothingLost},
	{"R5", "survived", all(restart), r5Survived},
	{"R5", "downgraded", all(rewind, grace, sharing), r5Downgraded},
}

// mustReclaim reclaims and compares the answers.
func (t *scene) mustReclaim(s *session, last bool, want []bool, requests ...*request) {
	if got := s.reclaimBatch(last, requests...); !slices.Equal(got, want) {
		t.fatalf("Reclaim of %v answered %v, want %v", requests, got, want)
	}
}

var yes, no = []bool{true}, []bool{false}

func r3PutBack(t *scene) {
	names := t.neighbors(3)
	s := t.open(names[0])
	var held []*request
	for _, name := range names {
		held = append(held, s.grant(name))
	}
	t.reset()
	again := s.resume()
	t.mustReclaim(again, false, []bool{true, true, true}, held...)
	t.mustReclaim(again, false, yes, held[1]) // it is idempotent
	for _, w := range held {
		t.mustHold(w.claim.Name, w)
		if out := w.on(again).granted(); out.Token != w.token {
			t.errorf("%v has token %v after Reclaim, want %v as before", w, out.Token, w.token)
		}
	}
}

func r3KeepsOthersOut(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name)
	t.reset()
	s, b := a.s.resume(), t.open(name)
	t.mustReclaim(s, false, yes, a)
	t.passGrace(name, s, b)
	w := b.want(name)
	w.busy()
	t.mustHold(name, a)
	a.on(s).mustFind(driver.WasGranted)
	w.granted()
}

func r3Shared(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name, share(2, 3))
	b := t.open(name).grant(name, share(1, 3))
	t.reset()
	sa, sb := a.s.resume(), b.s.resume()
	t.mustReclaim(sb, false, yes, b)
	t.mustReclaim(sa, false, yes, a)
	t.mustHold(name, a, b)
	t.passGrace(name, sa, sb)
	sa.want(name, share(1, 3)).busy()
}

func r3OtherLimits(t *scene) {
	// Each was granted by its own limit; in another order they would not fit.
	name := t.name("lock")
	a := t.open(name).grant(name, share(1, 1))
	b := t.open(name).grant(name, share(2, 3))
	t.reset()
	sa, sb := a.s.resume(), b.s.resume()
	t.mustReclaim(sb, false, yes, b)
	t.mustReclaim(sa, false, yes, a)
	t.mustHold(name, a, b)
}

func r3StoredLimit(t *scene) {
	// The limit they were granted by is lost with them.
	name := t.name("lock")
	t.setLimit(name, 4)
	a := t.open(name).grant(name, share(2, 2))
	b := t.open(name).grant(name, share(2, 2))
	t.reset()
	sa, sb := a.s.resume(), b.s.resume()
	t.mustReclaim(sa, false, yes, a)
	t.mustReclaim(sb, false, yes, b)
	t.mustHold(name, a, b)
}

func r3Reentered(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name, joining("me"))
	b := t.open(name).grant(name, joining("me"))
	t.reset()
	sa, sb := a.s.resume(), b.s.resume()
	t.mustReclaim(sa, false, yes, a)
	t.mustReclaim(sb, false, yes, b)
	t.mustHold(name, a, b)
}

func r3AttemptedFirst(t *scene) {
	// A repeated attempt of the grant may arrive before the Reclaim and come
	// into the queue. Nothing of it may stay there.
	name := t.name("lock")
	a := t.open(name).grant(name, queueing)
	t.reset()
	s := a.s.resume()
	mustBeGrace(t, a.on(s).attempt())
	t.mustReclaim(s, false, yes, a)
	t.mustHold(name, a)
	if st := t.inspect(name); st.Waiting != 0 {
		t.fatalf("got %d claims in the queue, the only one holds the lock", st.Waiting)
	}
	t.passGrace(name, s)
	a.on(s).mustFind(driver.WasGranted)
	t.mustBeFree(name)
}

func r3AfterARewind(t *scene) {
	name := t.name("lock")
	s := t.open(name)
	rewind := t.checkpoint()
	a := s.grant(name)
	rewind()
	again, b := s.resume(), t.open(name)
	t.mustReclaim(again, true, yes, a)
	t.mustHold(name, a)
	t.passGrace(name, again, b)
	b.want(name).busy()
}

// lostRelease rewinds to when old held the lock. In truth it was released
// and newer holds it.
func (t *scene) lostRelease(name string) (old, newer *request) {
	old, b := t.open(name).grant(name), t.open(name)
	rewind := t.checkpoint()
	old.withdraw()
	newer = b.grant(name)
	rewind()
	return old, newer
}

func r3OverALostRelease(t *scene) {
	// Whether the first holder or the second comes back first, the second gets
	// its grant back.
	first := t.name("first")
	old, newer := t.lostRelease(first)
	t.mustReclaim(old.s.resume(), true, nil)
	t.mustReclaim(newer.s.resume(), true, yes, newer)
	t.mustHold(first, newer)
	t.passGrace(first)
	second := t.name("second")
	old, newer = t.lostRelease(second)
	t.mustReclaim(newer.s.resume(), true, yes, newer)
	t.mustReclaim(old.s.resume(), true, nil)
	t.mustHold(second, newer)
}

func r3OverItsOwnRelease(t *scene) {
	// The session itself released the lock and was granted it again, under another
	// claim. What survived is the older one, and no session wants it back.
	name := t.name("lock")
	s := t.open(name)
	old := s.grant(name)
	rewind := t.checkpoint()
	old.withdraw()
	newer := s.grant(name)
	rewind()
	again, b := s.resume(), t.open(name)
	t.mustReclaim(again, true, yes, newer)
	t.mustHold(name, newer)
	t.passGrace(name, again, b)
	b.want(name).busy()
	newer.on(again).mustFind(driver.WasGranted)
	b.grant(name)
}

// superseded returns a grant that was withdrawn and the newer one after it, on
// two sessions. The first holder asks for its grant back as one does whose
// withdrawal was lost.
func (t *scene) superseded(name string) (old, newer *request) {
	old = t.open(name).grant(name)
	old.withdraw()
	return old, t.open(name).grant(name)
}

func r4Beside(t *scene) {
	name := t.name("lock")
	old, newer := t.superseded(name)
	t.mustReclaim(old.s, false, no, old)
	t.mustHold(name, newer)
}

func r4After(t *scene) {
	name := t.name("lock")
	old, newer := t.superseded(name)
	newer.withdraw()
	t.mustReclaim(old.s, false, no, old)
	t.mustBeFree(name)
}

func r4Expired(t *scene) {
	name := t.name("lock")
	b := t.open(name)
	a := t.openShort(name)
	old := a.grant(name)
	t.elapseKeeping(a.ttl+t.slack, b)
	newer := b.grant(name)
	again := a.resume()
	t.mustReclaim(again, false, no, old)
	t.mustHold(name, newer)
	newer.withdraw()
	t.mustReclaim(again, false, no, old)
}

func r4BesideReclaimed(t *scene) {
	name := t.name("lock")
	old, newer := t.superseded(name)
	t.reset()
	so, sn := old.s.resume(), newer.s.resume()
	t.mustReclaim(sn, false, yes, newer)
	t.mustReclaim(so, false, no, old)
	t.mustHold(name, newer)
}

func r4AfterReclaimed(t *scene) {
	name := t.name("lock")
	old, newer := t.superseded(name)
	t.reset()
	so, sn := old.s.resume(), newer.s.resume()
	t.mustReclaim(sn, false, yes, newer)
	newer.on(sn).mustFind(driver.WasGranted)
	t.mustReclaim(so, false, no, old)
	t.mustBeFree(name)
}

func r4BesideItsReentry(t *scene) {
	// The same Reentry at another time was another grant, with another token.
	name := t.name("lock")
	old := t.open(name).grant(name, joining("me"))
	old.withdraw()
	newer := t.open(name).grant(name, joining("me"))
	t.reset()
	so, sn := old.s.resume(), newer.s.resume()
	t.mustReclaim(sn, false, yes, newer)
	t.mustReclaim(so, false, no, old)
	t.mustHold(name, newer)
}

func r4NeverTwo(t *scene) {
	// The older one comes first, and the store cannot know that it is stale.
	// Whichever it prefers when the newer one comes, it must not be both.
	name := t.name("lock")
	old, newer := t.superseded(name)
	t.reset()
	so, sn := old.s.resume(), newer.s.resume()
	so.reclaim(old)
	sn.reclaim(newer)
	if st := t.inspect(name); len(st.Holders) > 1 {
		t.fatalf("two exclusive grants were put back: %v", st.Holders)
	}
}

func r4AfterTheLoss(t *scene) {
	name := t.name("lock")
	old := t.open(name).grant(name)
	t.elapse(t.slack)
	t.reset()
	b := t.open(name)
	t.passGrace(name, b)
	newer := b.grant(name)
	again := old.s.resume()
	t.mustReclaim(again, false, no, old)
	t.mustHold(name, newer)
	newer.withdraw()
	t.mustReclaim(again, false, no, old)
	t.mustBeFree(name)
}

func r4UnderALostRelease(t *scene) {
	name := t.name("lock")
	old, newer := t.lostRelease(name)
	t.mustReclaim(newer.s.resume(), true, yes, newer)
	t.mustReclaim(old.s.resume(), false, no, old)
	t.mustHold(name, newer)
}

func r4WithoutGrace(t *scene) {
	// Another may have been granted and gone since the loss; a store without
	// grace cannot exclude it.
	name := t.name("lock")
	old := t.open(name).grant(name)
	t.reset()
	t.mustReclaim(old.s.resume(), false, no, old)
	t.mustBeFree(name)
	t.open(name).grant(name)
}

func r5NothingLost(t *scene) {
	names := t.neighbors(3)
	s, b := t.open(names[0]), t.open(names[0])
	first := s.grant(names[0])
	stale := s.grant(names[1])
	stale.withdraw()
	newer := b.grant(names[1])
	last := s.grant(names[2])
	t.mustReclaim(s, false, []bool{true, false, true}, first, stale, last)
	t.mustReclaim(s, true, []bool{true, true}, first, last)
	t.mustHold(names[0], first)
	t.mustHold(names[1], newer)
	t.mustHold(names[2], last)
}

func r5Survived(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name)
	t.restart()
	s, b := a.s.resume(), t.open(name)
	if b.want(name).attempt().State == driver.Granted {
		t.fatalf("granted beside a grant that survived the loss")
	}
	t.mustReclaim(s, true, yes, a)
	t.mustHold(name, a)
	t.passGrace(name, s, b)
	b.want(name).busy()
	if out := a.on(s).granted(); out.Token != a.token {
		t.fatalf("the surviving grant has token %v, want %v as before", out.Token, a.token)
	}
	a.on(s).mustFind(driver.WasGranted)
	b.grant(name)
}

func r5Downgraded(t *scene) {
	// The memory is older than the downgrade and has the holder as exclusive. The
	// reader that was let in since gets its grant back whichever reclaims first.
	for _, first := range []string{"holder", "reader"} {
		name := t.name(first)
		holder, b := t.open(name).grant(name), t.open(name)
		rewind := t.checkpoint()
		downgrade(t, holder)
		reader := b.grant(name, shared)
		rewind()
		sh, sr := holder.s.resume(), reader.s.resume()
		if first == "holder" {
			t.mustReclaim(sh, true, yes, holder)
			t.mustReclaim(sr, true, yes, reader)
		} else {
			t.mustReclaim(sr, true, yes, reader)
			t.mustReclaim(sh, true, yes, holder)
		}
		t.mustHold(name, holder, reader)
		t.passGrace(name, sh, sr)
		sh.want(name, shared).granted()
	}
}
