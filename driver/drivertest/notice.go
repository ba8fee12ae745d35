// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/driver"
)

var noticeCases = []spec{
	{"W6", "queued", all(atOnce), w6Queued},
	{"W6", "granted from the queue", all(atOnce, queue, push), w6Promoted},
	{"W6", "every reader", all(atOnce, sharing), w6Readers},
	{"W6", "after a resume", all(atOnce), w6Resumed},
	{"W7", "queued before the grant", all(atOnce, queue), w7BeforeTheGrant},
	{"W7", "queued before the watch", all(atOnce), w7BeforeTheWatch},
	{"W7", "reclaimed", all(atOnce, reset, grace), w7Reclaimed},
	{"W7", "confirmed", all(atOnce, restart), w7Confirmed},
	{"W8", "renewal", all(atKeep, queue), w8Renewal},
	{"W8", "watched later", all(atKeep, queue), w8WatchedLater},
	{"W8", "reclaimed", all(atKeep, queue, reset), w8Reclaimed},
	{"W9", "same token", all(noticed), w9SameToken},
	{"W9", "only the lock that is waited for", all(noticed), w9Only},
	{"W10", "shown", all(lingers), w10Shown},
}

// wait makes a claim that waits for the lock until the case ends. A store without
// Caps.Queue may have it in the queues of its nodes only while a call waits.
func (s *session) wait(name string) {
	w := s.want(name, queueing)
	ctx, cancel := context.WithCancel(s.t.ctx)
	done := make(chan struct{})
	if out := w.attempt(); out.State == driver.Granted {
		s.t.fatalf("%v was granted beside its holder", w)
	}
	go func() {
		defer close(done)
		for range maxSpurious {
			c := w.claim
			if out, err := s.d.Await(ctx, &c); err != nil || out.State == driver.Granted {
				return
			}
			if out, err := s.d.Attempt(ctx, &c); err != nil || out.State == driver.Granted {
				return
			}
		}
	}()
	s.t.cleanup(func() {
		cancel()
		<-done
	})
}

// mustBeContended waits for the notice about a granted claim.
func (w *request) mustBeContended() {
	ctx, cancel := w.s.t.bounded()
	defer cancel()
	for {
		select {
		case seq := <-w.s.notices:
			if seq == w.claim.Seq {
				return
			}
		case <-ctx.Done():
			w.s.t.fatalf("no notice that another claim waits behind %v", w)
		}
	}
}

// mustNotBeContended fails if there was a notice about the claim so far.
func (w *request) mustNotBeContended() {
	for {
		select {
		case seq := <-w.s.notices:
			if seq == w.claim.Seq {
				w.s.t.fatalf("a notice about %v, for which no claim waits", w)
			}
		default:
			return
		}
	}
}

// watch attempts a granted claim again, with Watch.
func (w *request) watch() {
	w.claim.Watch = true
	token := w.token
	if w.granted(); w.token != token {
		w.s.t.fatalf("%v had token %v and has %v since it is watched", w, token, w.token)
	}
}

func w6Queued(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name, watched)
	holder.mustNotBeContended()
	t.openElsewhere(name).wait(name)
	holder.mustBeContended()
}

func w6Promoted(t *scene) {
	name := t.name("lock")
	first := t.open(name).grant(name)
	next := t.openElsewhere(name).queue(name, watched)
	t.pushed(next, func() { first.withdraw() })
	next.mustNotBeContended()
	t.open(name).wait(name)
	next.mustBeContended()
}

func w6Readers(t *scene) {
	name := t.name("lock")
	a := t.open(name).grant(name, shared, watched)
	b := t.openElsewhere(name).grant(name, shared, watched)
	t.open(name).wait(name)
	a.mustBeContended()
	b.mustBeContended()
}

func w6Resumed(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name, watched)
	again := holder.on(holder.s.resume())
	again.granted()
	t.openElsewhere(name).wait(name)
	again.mustBeContended()
}

func w7BeforeTheGrant(t *scene) {
	name := t.name("lock")
	first := t.open(name).grant(name)
	next := t.openElsewhere(name).queue(name, watched)
	t.open(name).wait(name)
	first.withdraw()
	next.granted()
	next.mustBeContended()
}

func w7BeforeTheWatch(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	t.openElsewhere(name).wait(name)
	holder.watch()
	holder.mustBeContended()
}

func w7Reclaimed(t *scene) { w7After(t, t.reset) }

func w7Confirmed(t *scene) { w7After(t, t.restart) }

// w7After lets a claim wait after a loss in which the holder kept its grant.
func w7After(t *scene, loss func()) {
	name := t.name("lock")
	holder := t.open(name).grant(name, watched)
	loss()
	again := holder.on(holder.s.resume())
	if !again.s.reclaimBatch(true, again)[0] {
		t.fatalf("%v was not reclaimed or confirmed", again)
	}
	t.passGrace(name, again.s) // a claim may be queued only then
	t.openElsewhere(name).wait(name)
	again.mustBeContended()
}

func w8Renewal(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name, watched)
	holder.s.keepAlive()
	holder.mustNotBeContended()
	t.openElsewhere(name).queue(name)
	holder.s.keepAlive()
	holder.mustBeContended()
}

func w8WatchedLater(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	t.openElsewhere(name).queue(name)
	holder.watch()
	holder.s.keepAlive()
	holder.mustBeContended()
}

func w8Reclaimed(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name, watched)
	t.reset()
	again := holder.on(holder.s.resume())
	if !again.s.reclaimBatch(true, again)[0] { // without grace it is lost
		again = again.s.grant(name, watched)
	}
	t.passGrace(name, again.s)
	t.openElsewhere(name).queue(name)
	again.s.keepAlive()
	again.mustBeContended()
}

func w10Shown(t *scene) {
	name := t.name("lock")
	if t.caps.Contended != driver.NoticeAtOnce {
		t.fatalf("Caps.Linger is set, and Contended is %v", t.caps.Contended)
	}
	const d = 700 * time.Millisecond
	holder := t.open(name).grant(name, watched, func(c *driver.Claim) { c.Terms.Linger = d })
	other := t.openElsewhere(name)
	for what, holders := range map[string][]driver.Holder{
		"Inspect":        t.inspect(name).Holders,
		"a busy attempt": other.want(name).busy().Holders,
		"a queued one":   other.queue(name).queued().Holders,
	} {
		if len(holders) != 1 || holders[0].Claim != holder.id() || holders[0].Linger != d {
			t.errorf("%s shows holders %+v, want one that may linger for %v", what, holders, d)
		}
	}
}

func w9SameToken(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	holder.watch()
	holder.watch()
	t.mustHold(name, holder)
	holder.mustFind(driver.WasGranted)
	t.mustBeFree(name)
}

func w9Only(t *scene) {
	names := t.neighbors(2)
	s := t.open(names[0])
	quiet, wanted := s.grant(names[0], watched), s.grant(names[1], watched)
	other := t.openElsewhere(names[1])
	other.wait(names[1])
	other.want(names[0]).busy() // a try does not wait
	s.keepAlive()
	// Notices of one session come nearly in order, so the notice of the other lock is
	// the moment to check.
	for range maxSpurious {
		select {
		case seq := <-s.notices:
			if seq == quiet.claim.Seq {
				t.fatalf("a notice about %v, for which no claim waits", quiet)
			}
			if seq == wanted.claim.Seq {
				quiet.mustNotBeContended()
				return
			}
		default:
			t.elapse(t.short / 100)
			s.keepAlive()
		}
	}
	t.fatalf("no notice that another claim waits behind %v", wanted)
}
