// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"

	"github.com/fencelock/fencelock/driver"
)

var unknownCases = []spec{
	{"X1", "ended", nil, x1Ended},
	{"X1", "deadline passed", nil, x1DeadlinePassed},
	{"X1", "found again", nil, x1FoundAgain},
	{"X1", "found again queued", all(queue), x1FoundAgainQueued},
	{"X1", "close can be repeated", nil, x1CloseAgain},
	{"X1", "canceled during the call", nil, x1CanceledDuringTheCall},
	{"X2", "granted", nil, x2Granted},
	{"X2", "queued", all(queue), x2Queued},
	{"X3", "absent", nil, x3Absent},
	{"X3", "granted", nil, x3Granted},
	{"X3", "queued", all(queue), x3Queued},
	{"X3", "until the session ends", nil, x3ForTheSession},
	{"X3", "elsewhere", nil, x3Elsewhere},
	{"X3", "reclaimed", nil, x3Reclaimed},
	{"X3", "reclaimed during grace", all(reset, grace), x3ReclaimedDuringGrace},
}

// call is one method of a store or a session.
type call struct {
	what string
	do   func(context.Context) error
}

// calls returns every method that takes a context but Await and Close, as far
// as it works by Caps. They are about w, which is granted.
func (t *scene) calls(w *request) []call {
	d, name := w.s.d, w.claim.Name
	fresh := w.s.want(name)
	list := []call{
		{"KeepAlive", func(ctx context.Context) error { _, err := d.KeepAlive(ctx); return err }},
		{"Attempt", func(ctx context.Context) error { _, err := d.Attempt(ctx, &fresh.claim); return err }},
		{"Reclaim", func(ctx context.Context) error {
			_, err := d.Reclaim(ctx, []driver.Held{{Claim: w.claim, Token: w.token}}, false)
			return err
		}},
		{"Withdraw", func(ctx context.Context) error {
			_, err := d.Withdraw(ctx, driver.Withdrawal{Seq: fresh.claim.Seq, Name: name})
			return err
		}},
		{"Inspect", func(ctx context.Context) error { _, err := t.store.Inspect(ctx, name); return err }},
		{"Open", func(ctx context.Context) error { _, _, err := t.store.Open(ctx, w.s.req); return err }},
	}
	if t.caps.Listing {
		list = append(list, call{"List", func(ctx context.Context) error {
			_, err := t.store.List(ctx, driver.ListQuery{Prefix: name, Max: 1})
			return err
		}})
	}
	if t.caps.Shared && !t.caps.NoLimits {
		list = append(list, call{"SetLimit", func(ctx context.Context) error { return t.store.SetLimit(ctx, name, 0) }})
	}
	if t.caps.Fencing != driver.NoFencing {
		list = append(list, call{"Break", func(ctx context.Context) error {
			_, err := t.store.Break(ctx, name, w.token+driver.TokenStep)
			return err
		}})
	}
	return list
}

func x1Ended(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	for _, c := range t.calls(w) {
		t.wantErr(c.what+" with an ended context", c.do(ctx), context.Canceled)
	}
	t.mustHold(name, w)
	w.s.keepAlive()
	w.mustFind(driver.WasGranted)
	w.s.grant(name)
}

func x1DeadlinePassed(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	ctx, cancel := context.WithTimeout(t.ctx, -1)
	defer cancel()
	for _, c := range t.calls(w) {
		t.wantErr(c.what+" past its deadline", c.do(ctx), context.DeadlineExceeded)
	}
}

// attemptEnded attempts with a context that has ended.
func attemptEnded(t *scene, w *request) {
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	_, err := w.s.d.Attempt(ctx, &w.claim)
	t.wantErr("Attempt with an ended context", err, context.Canceled)
}

func x1FoundAgain(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	found := a.want(name)
	attemptEnded(t, found)
	found.granted()
	found.mustFind(driver.WasGranted)
	removed := a.want(name)
	attemptEnded(t, removed)
	removed.withdraw()
	t.mustBeFree(name)
	t.open(name).grant(name)
}

func x1FoundAgainQueued(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	a := t.open(name)
	found, removed := a.want(name, queueing), a.want(name, queueing)
	attemptEnded(t, found)
	attemptEnded(t, removed)
	found.queued()
	removed.withdraw()
	found.queuedAt(0)
	if st := t.inspect(name); st.Waiting != 1 {
		t.fatalf("got %d claims in the queue, want 1", st.Waiting)
	}
	holder.withdraw()
	found.granted()
}

func x1CloseAgain(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	a.grant(name)
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	t.wantErr("Close with an ended context", a.d.Close(ctx), context.Canceled)
	a.close()
	t.open(name).grant(name)
}

func x1CanceledDuringTheCall(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	for range 30 {
		w := a.want(name, queueing)
		ctx, cancel := context.WithCancel(t.ctx)
		go cancel()
		out, err := w.s.d.Attempt(ctx, &w.claim)
		cancel()
		if err != nil {
			t.wantErr("Attempt canceled during the call", err, context.Canceled)
		}
		if out.State == driver.Granted {
			if again := w.granted(); again.Token != out.Token {
				t.fatalf("the same claim got token %v, want %v again", again.Token, out.Token)
			}
		}
		w.remove(driver.Withdrawal{Tombstone: true})
		t.mustBeFree(name)
	}
}

func x2Granted(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	w := a.grant(name)
	found := w.on(a.resumeOn(t.other()))
	found.granted()
	if found.token != w.token {
		t.fatalf("the resumed session's attempt got token %v, want %v", found.token, w.token)
	}
	found.mustFind(driver.WasGranted)
	w.mustFind(driver.WasAbsent)
	t.mustBeFree(name)
}

func x2Queued(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	a := t.open(name)
	w := a.queue(name)
	behind := t.open(name).queue(name)
	found := w.on(a.resumeOn(t.other()))
	found.queuedAt(0)
	behind.queuedAt(1)
	holder.withdraw()
	found.granted()
	w.granted()
	if w.token != found.token {
		t.fatalf("two values of one session see tokens %v and %v of one claim", w.token, found.token)
	}
}

// tombstone withdraws with Tombstone set, and the attempt that arrives later must be
// refused.
func tombstone(t *scene, w *request, want driver.Removed) {
	w.compareFound(w.remove(driver.Withdrawal{Tombstone: true}), want)
	mustBeTombstoned(t, w)
}

func mustBeTombstoned(t *scene, w *request) {
	for _, late := range []*request{w, {s: w.s, claim: w.claim}} {
		late.claim.Queue = !late.claim.Queue
		late.mustBe(driver.Absent)
	}
	for _, h := range t.inspect(w.claim.Name).Holders {
		if h.Claim == w.id() {
			t.fatalf("the tombstoned claim %v holds the lock", w)
		}
	}
}

func x3Absent(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	w := a.want(name)
	tombstone(t, w, driver.WasAbsent)
	t.mustBeFree(name)
	a.grant(name) // another number is another claim
	mustBeTombstoned(t, w)
}

func x3Granted(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	tombstone(t, w, driver.WasGranted)
	t.mustBeFree(name)
	b := t.open(name).grant(name) // the same number on another session
	mustBeTombstoned(t, w)
	t.mustHold(name, b)
}

func x3Queued(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	w := t.open(name).queue(name)
	tombstone(t, w, driver.WasQueued)
	if st := t.inspect(name); st.Waiting != 0 {
		t.fatalf("got %d claims in the queue after the only one was tombstoned", st.Waiting)
	}
	holder.withdraw()
	mustBeTombstoned(t, w)
	t.mustBeFree(name)
}

func x3ForTheSession(t *scene) {
	name := t.name("lock")
	a := t.openShort(name)
	w := a.want(name)
	tombstone(t, w, driver.WasAbsent)
	t.elapseKeeping(3*a.ttl, a)
	for range 20 {
		a.grant(name).withdraw()
		a.keepAlive() // a store may be slow, and the session is short
	}
	mustBeTombstoned(t, w)
}

func x3Elsewhere(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	w := a.want(name)
	tombstone(t, w, driver.WasAbsent)
	mustBeTombstoned(t, w.on(a.resumeOn(t.other())))
	mustBeTombstoned(t, w)
	w.mustFind(driver.WasAbsent)
	mustBeTombstoned(t, w) // a plain withdrawal does not dig it up
}

func x3Reclaimed(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	tombstone(t, w, driver.WasGranted)
	t.mustReclaim(w.s, false, no, w)
	t.mustBeFree(name)
}

func x3ReclaimedDuringGrace(t *scene) {
	// The holder gives up while its own Reclaim is still on the way.
	name := t.name("lock")
	w := t.open(name).grant(name)
	t.reset()
	s := w.s.resume()
	late := w.on(s)
	tombstone(t, late, driver.WasAbsent)
	t.mustReclaim(s, false, no, late)
	t.mustBeFree(name)
	t.passGrace(name, s)
	s.grant(name)
}
