// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"slices"

	"github.com/fencelock/fencelock/driver"
)

var breakCases = []spec{
	{"I4", "ends the grant", all(fencing), i4EndsTheGrant},
	{"I4", "by Base", all(fencing), i4ByBase},
	{"I4", "not held", all(fencing), i4NotHeld},
	{"I4", "that token only", all(fencing, sharing), i4ThatTokenOnly},
	{"I4", "grants to the next", all(fencing, queue), i4GrantsToTheNext},
	{"I4", "reported until withdrawn", all(fencing), i4Reported},
	{"I4", "every claim that shares it", all(fencing, reentry), i4EveryClaim},
	{"I4", "in spite of MinHold", all(fencing, holds), i4MinHold},
}

// mustReportBroken fails unless the session's Renewal lists exactly these claims as
// broken.
func mustReportBroken(t *scene, what string, renewal driver.Renewal, requests ...*request) {
	got := slices.Sorted(slices.Values(renewal.Broken))
	var want []uint64
	for _, w := range requests {
		want = append(want, w.claim.Seq)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.fatalf("%s reported broken claims %v, want %v", what, got, want)
	}
}

func i4EndsTheGrant(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	t.breakGrant(name, w.token)
	t.mustBeFree(name)
	b := t.open(name).grant(name)
	w.withdraw() // the broken one's withdrawal touches no other grant
	t.mustHold(name, b)
}

func i4ByBase(t *scene) {
	// A token that is read at the resource may be that of a local handoff.
	name := t.name("lock")
	w := t.open(name).grant(name)
	t.breakGrant(name, w.token+driver.TokenStep-1)
	t.mustBeFree(name)
}

func i4NotHeld(t *scene) {
	name := t.name("lock")
	s := t.open(name)
	old := s.grant(name)
	old.withdraw()
	w := s.grant(name)
	ctx, cancel := t.bounded()
	defer cancel()
	for _, token := range []driver.Token{old.token, w.token + driver.TokenStep, w.token - 1} {
		_, err := t.store.Break(ctx, name, token)
		t.wantErr("Break with a token that is not held", err, driver.ErrNotHeld)
	}
	_, err := t.store.Break(ctx, t.name("free"), w.token)
	t.wantErr("Break of a free lock", err, driver.ErrNotHeld)
	t.mustHold(name, w)
	mustReportBroken(t, "KeepAlive", s.keepAlive())
}

func i4ThatTokenOnly(t *scene) {
	name := t.name("lock")
	s := t.open(name)
	a, b, c := s.grant(name, shared), s.grant(name, shared), t.open(name).grant(name, shared)
	t.breakGrant(name, b.token)
	t.mustHold(name, a, c)
	mustReportBroken(t, "KeepAlive", s.keepAlive(), b)
	mustReportBroken(t, "KeepAlive of another session", c.s.keepAlive())
}

func i4GrantsToTheNext(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	next, last := t.open(name).queue(name), t.open(name).queue(name)
	t.breakGrant(name, w.token)
	t.mustHaveHeld(name, next)
	t.mustHold(name, next)
	last.queuedAt(0)
}

func i4Reported(t *scene) {
	names := t.neighbors(2)
	s := t.open(names[0])
	a, b := s.grant(names[0]), s.grant(names[1])
	t.breakGrant(names[0], a.token)
	for range 2 {
		mustReportBroken(t, "KeepAlive", s.keepAlive(), a)
	}
	mustReportBroken(t, "Open", s.resume().renewal, a)
	b.withdraw()
	mustReportBroken(t, "KeepAlive after another claim's withdrawal", s.keepAlive(), a)
	// An answer that says less to a withdrawal that is sent twice would hide the
	// break from the holder.
	for range 2 {
		a.mustFind(driver.WasBroken)
	}
	mustReportBroken(t, "KeepAlive after the withdrawal", s.keepAlive())
	a.mustFind(driver.WasBroken)
	mustReportBroken(t, "Open after the withdrawal", s.resume().renewal)
}

func i4EveryClaim(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name, joining("me"))
	b := t.open(name).grant(name, joining("me"))
	t.breakGrant(name, a.token)
	t.mustBeFree(name)
	mustReportBroken(t, "KeepAlive", a.s.keepAlive(), a)
	mustReportBroken(t, "KeepAlive", b.s.keepAlive(), b)
}

func i4MinHold(t *scene) {
	// An operator who breaks a grant wants it ended, whatever its terms.
	name := t.name("lock")
	w := t.open(name).grant(name, minHold(t.short))
	t.breakGrant(name, w.token)
	t.open(name).grant(name)
}
