// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
)

var waitingCases = []spec{
	{"W1", "withdrawn", all(queue, push), w1Withdrawn},
	{"W1", "closed", all(queue, push), w1Closed},
	{"W1", "broken", all(queue, push, fencing), w1Broken},
	{"W1", "limit raised", all(queue, push, limits), w1LimitRaised},
	{"W1", "readers together", all(queue, push, sharing), w1Readers},
	{"W1", "many handoffs", all(queue, push), w1ManyHandOvers},
	{"W2", "ended before", nil, w2EndedBefore},
	{"W2", "canceled", all(queue, push), w2Canceled},
	{"W2", "deadline", all(queue, push), w2Deadline},
	{"W3", "granted before", all(queue, push), w3GrantedBefore},
	{"W3", "between two waits", all(queue, push), w3BetweenTwoWaits},
	{"W4", "time to poll", all(queue), w4PollTime},
	{"W4", "time to poll after a renewal", all(queue), w4PollTimeAfterARenewal},
	{"W4", "max hold", all(queue, holds), w4MaxHold},
	{"W4", "first of several to end", all(queue, limits), w4FirstOfSeveral},
	{"W4", "kept", all(queue, holds), w4Kept},
	{"W5", "at once", all(noPush), w5AtOnce},
}

// pushed runs free while w waits, and w must then be notified.
func (t *scene) pushed(w *request, free func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.guarded(func() { w.await() })
	}()
	// If the wait has not begun before free, this tests W3 as well.
	free()
	<-done // bounded by await
	notified := w.token
	if out := w.granted(); out.Token != notified {
		t.fatalf("Await of %v returned token %v, the store has %v", w, notified, out.Token)
	}
}

func w1Withdrawn(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	next, last := t.openElsewhere(name).queue(name), t.open(name).queue(name)
	t.pushed(next, func() { holder.withdraw() })
	t.pushed(last, func() { next.withdraw() })
}

func w1Closed(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	a.grant(name)
	next := t.openElsewhere(name).queue(name)
	t.pushed(next, a.close)
}

func w1Broken(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	next := t.openElsewhere(name).queue(name)
	t.pushed(next, func() { t.breakGrant(name, holder.token) })
}

func w1LimitRaised(t *scene) {
	name := t.name("lock")
	t.setLimit(name, 1)
	t.open(name).grant(name, share(1, 1))
	next := t.openElsewhere(name).queue(name, share(1, 1))
	t.pushed(next, func() { t.setLimit(name, 2) })
}

func w1Readers(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	var readers []*request
	for range 3 {
		readers = append(readers, t.open(name).queue(name, shared))
	}
	t.together(len(readers)+1, func(i int) {
		if i == len(readers) {
			holder.withdraw()
			return
		}
		readers[i].await()
	})
}

func w1ManyHandOvers(t *scene) {
	const processes, rounds = 6, 10
	name := t.name("lock")
	stores := []driver.Store{t.store, t.other()}
	var sessions []*session
	for i := range processes {
		sessions = append(sessions, t.openOn(stores[i%2], name, t.long))
	}
	var inside atomic.Int32
	r := riser{t: t}
	t.together(processes, func(i int) {
		for range rounds {
			w := sessions[i].want(name, queueing)
			if out := w.attempt(); out.State == driver.Granted {
				w.token = out.Token
			} else {
				w.await()
			}
			if n := inside.Add(1); n != 1 {
				t.fatalf("%d exclusive claims are granted at once", n)
			}
			if t.caps.Fencing != driver.NoFencing {
				r.next("a handoff", w.token) // guarded by the lock being tested
			}
			inside.Add(-1)
			w.mustFind(driver.WasGranted)
		}
	})
	t.mustBeFree(name)
}

// awaitError waits with ctx until Await returns an error.
func (t *scene) awaitError(ctx context.Context, w *request) (err error) {
	t.within(t.soon, "Await", func() {
		for range maxSpurious {
			var out driver.Outcome
			if out, err = w.s.d.Await(ctx, &w.claim); err != nil {
				return
			}
			if ctx.Err() != nil {
				return // for no reason, perhaps, but then not at this very moment
			}
			if out.State == driver.Granted {
				t.errorf("Await answered granted for %v, which is not", w)
				return
			}
		}
	})
	return err
}

func w2EndedBefore(t *scene) {
	name := t.name("lock")
	t.open(name).grant(name)
	w := t.open(name).want(name, queueing)
	w.attempt()
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	t.wantErr("Await with an ended context", t.awaitError(ctx, w), context.Canceled)
}

func w2Canceled(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	w := t.open(name).queue(name)
	ctx, cancel := context.WithCancel(t.ctx)
	timer := time.AfterFunc(t.short/20, cancel)
	defer timer.Stop()
	t.wantErr("Await with a canceled context", t.awaitError(ctx, w), context.Canceled)
	// Await changes nothing in the store: the claim is still in the queue.
	w.queuedAt(0)
	t.pushed(w, func() { holder.withdraw() })
}

func w2Deadline(t *scene) {
	name := t.name("lock")
	t.open(name).grant(name)
	w := t.open(name).queue(name)
	ctx, cancel := context.WithTimeout(t.ctx, t.short/20)
	defer cancel()
	t.wantErr("Await past its deadline", t.awaitError(ctx, w), context.DeadlineExceeded)
	w.queuedAt(0)
}

func w3GrantedBefore(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	w := t.openElsewhere(name).queue(name)
	holder.withdraw()
	t.mustHold(name, w)
	// Long enough that a push has come and, without a waiter, is lost.
	t.elapse(t.slack)
	notified := w.await().Token
	if out := w.granted(); out.Token != notified {
		t.fatalf("Await returned token %v, the store has %v", notified, out.Token)
	}
}

func w3BetweenTwoWaits(t *scene) {
	name := t.name("lock")
	holder := t.open(name).grant(name)
	w := t.openElsewhere(name).queue(name)
	ctx, cancel := context.WithTimeout(t.ctx, t.short/20)
	defer cancel()
	t.wantErr("Await past its deadline", t.awaitError(ctx, w), context.DeadlineExceeded)
	holder.withdraw()
	t.elapse(t.slack)
	w.await()
}

// pollAfter returns when a queued claim shall poll again.
func (t *scene) pollAfter(w *request, atMost time.Duration) time.Duration {
	d := w.queued().PollAfter
	if d <= 0 || d > atMost+t.slack {
		t.fatalf("the first in the queue has PollAfter %v, want more than 0 and about %v at most", d, atMost)
	}
	return d
}

func w4PollTime(t *scene) {
	name := t.name("lock")
	b := t.open(name)
	a := t.openShort(name)
	a.grant(name)
	w := b.queue(name)
	t.elapseKeeping(t.pollAfter(w, a.ttl)+t.slack, b)
	w.granted()
}

func w4PollTimeAfterARenewal(t *scene) {
	name := t.name("lock")
	b := t.open(name)
	a := t.openShort(name)
	a.grant(name)
	w := b.queue(name)
	for range 2 {
		t.elapseKeeping(a.ttl/2, b)
		a.keepAlive()
	}
	t.elapseKeeping(t.pollAfter(w, a.ttl)+t.slack, b)
	w.granted()
}

func w4MaxHold(t *scene) {
	name := t.name("lock")
	a, b := t.open(name), t.open(name)
	a.grant(name, maxHold(t.short))
	w := b.queue(name)
	t.elapseKeeping(t.pollAfter(w, t.short)+t.slack, a, b)
	w.granted()
}

func w4FirstOfSeveral(t *scene) {
	// The claim fits as soon as the first of the two holders has ended.
	name := t.name("lock")
	a, b := t.open(name), t.open(name)
	short := t.openShort(name)
	a.grant(name, share(1, 2))
	short.grant(name, share(1, 2))
	w := b.queue(name, share(1, 2))
	t.elapseKeeping(t.pollAfter(w, short.ttl)+t.slack, a, b)
	w.granted()
}

func w4Kept(t *scene) {
	name := t.name("lock")
	b := t.open(name)
	holder := t.open(name).grant(name)
	holder.remove(driver.Withdrawal{KeepFor: t.short})
	w := b.queue(name)
	t.elapseKeeping(t.pollAfter(w, t.short)+t.slack, b)
	w.granted()
}

func w5AtOnce(t *scene) {
	name := t.name("lock")
	t.open(name).grant(name)
	w := t.open(name).want(name, queueing)
	if w.attempt().State == driver.Granted {
		t.fatalf("%v was granted beside another", w)
	}
	ctx, cancel := t.bounded()
	defer cancel()
	t.within(t.soon/2, "Await without Push", func() {
		out, err := w.s.d.Await(ctx, &w.claim)
		if err != nil || out.PollAfter <= 0 {
			t.errorf("Await without Push returned PollAfter %v, error %v; want a positive time", out.PollAfter, err)
		}
	})
}
