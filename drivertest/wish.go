// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// session is an open session of a case. It is closed after the case.
type session struct {
	t     *scene
	d     driver.Session
	store driver.Store
	req   driver.OpenRequest
	life  driver.Life
	// ttl is the TTL the store answered with.
	ttl time.Duration
	seq uint64
}

// open opens a session that lives through the case, on the shard of name.
func (t *scene) open(name string) *session { return t.openOn(t.store, name, t.long) }

// openShort opens a session that ends soon unless it is kept alive.
func (t *scene) openShort(name string) *session { return t.openOn(t.store, name, t.short) }

// openElsewhere opens a session through the second store value.
func (t *scene) openElsewhere(name string) *session { return t.openOn(t.other(), name, t.long) }

func (t *scene) openOn(store driver.Store, name string, ttl time.Duration) *session {
	return t.openRequest(store, driver.OpenRequest{
		Shard: store.Shard(name), ID: driver.NewSessionID(), TTL: ttl,
	})
}

func (t *scene) openRequest(store driver.Store, req driver.OpenRequest) *session {
	ctx, cancel := t.bounded()
	defer cancel()
	d, life, err := store.Open(ctx, req)
	if err != nil {
		t.fatalf("Open with a TTL of %v: %v", req.TTL, err)
	}
	t.cleanup(func() {
		// What the store says of a session the case has already ended is not
		// the matter of this case.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), t.soon)
		defer cancel()
		d.Close(ctx)
	})
	s := &session{t: t, d: d, store: store, req: req, life: life, ttl: life.TTL}
	if s.ttl <= 0 {
		s.ttl = req.TTL // S6 says so; the other cases must not hang on it
	}
	return s
}

// resumeOn opens the session again through a store value.
func (s *session) resumeOn(store driver.Store) *session {
	again := s.t.openRequest(store, s.req)
	again.seq = s.seq
	return again
}

// resume opens the session again where it was opened.
func (s *session) resume() *session { return s.resumeOn(s.store) }

func (s *session) keepAlive() driver.Life {
	ctx, cancel := s.t.bounded()
	defer cancel()
	life, err := s.d.KeepAlive(ctx)
	if err != nil {
		s.t.fatalf("KeepAlive of a live session: %v", err)
	}
	return life
}

func (s *session) close() {
	ctx, cancel := s.t.bounded()
	defer cancel()
	if err := s.d.Close(ctx); err != nil {
		s.t.fatalf("Close: %v", err)
	}
}

// reclaim asks for grants back, as one batch of several.
func (s *session) reclaim(wishes ...*wish) []bool { return s.reclaimBatch(false, wishes...) }

func (s *session) reclaimBatch(last bool, wishes ...*wish) []bool {
	ctx, cancel := s.t.bounded()
	defer cancel()
	held := make([]driver.Held, len(wishes))
	for i, w := range wishes {
		held[i] = driver.Held{Claim: w.claim, Token: w.token}
	}
	ok, err := s.d.Reclaim(ctx, held, last)
	if err != nil {
		s.t.fatalf("Reclaim: %v", err)
	}
	if len(ok) != len(held) {
		s.t.fatalf("Reclaim of %d grants answered for %d", len(held), len(ok))
	}
	return ok
}

// wish is one claim on a session, and the token it was last granted with.
type wish struct {
	s     *session
	claim driver.Claim
	token driver.Token
}

// term changes what a wish asks for.
type term func(*driver.Claim)

func inLine(c *driver.Claim) { c.Queue = true }
func shared(c *driver.Claim) { c.Terms.Mode = driver.Shared }

// share asks for weight out of limit.
func share(weight, limit int64) term {
	return func(c *driver.Claim) {
		c.Terms.Mode, c.Terms.Weight, c.Terms.Limit = driver.Shared, weight, limit
	}
}

func joining(id string) term { return func(c *driver.Claim) { c.Terms.Reentry = id } }

func minHold(d time.Duration) term { return func(c *driver.Claim) { c.Terms.MinHold = d } }

func maxHold(d time.Duration) term { return func(c *driver.Claim) { c.Terms.MaxHold = d } }

func record(r driver.Record) term { return func(c *driver.Claim) { c.Terms.Record = &r } }

// want makes a claim and sends nothing.
func (s *session) want(name string, terms ...term) *wish {
	s.seq++
	w := &wish{s: s, claim: driver.Claim{Seq: s.seq, Name: name, Terms: &driver.Terms{
		Weight: 1, Record: &driver.Record{Owner: fmt.Sprintf("drivertest:%d", s.seq)},
	}}}
	for _, f := range terms {
		f(&w.claim)
	}
	return w
}

// grant makes a claim that must be granted at once.
func (s *session) grant(name string, terms ...term) *wish {
	w := s.want(name, terms...)
	w.granted()
	return w
}

// queue makes a claim that must come into line.
func (s *session) queue(name string, terms ...term) *wish {
	w := s.want(name, append(terms, inLine)...)
	w.queued()
	return w
}

// on returns the same wish on another value of its session.
func (w *wish) on(s *session) *wish { return &wish{s: s, claim: w.claim, token: w.token} }

func (w *wish) id() driver.ClaimID {
	return driver.ClaimID{Session: w.s.req.ID, Seq: w.claim.Seq}
}

func (w *wish) String() string { return fmt.Sprintf("%v for %q", w.id(), w.claim.Name) }

func (w *wish) attempt() driver.Outcome {
	ctx, cancel := w.s.t.bounded()
	defer cancel()
	c := w.claim
	out, err := w.s.d.Attempt(ctx, &c)
	if err != nil {
		w.s.t.fatalf("attempt of %v: %v", w, err)
	}
	return out
}

func (w *wish) mustBe(want driver.State) driver.Outcome {
	out := w.attempt()
	if out.State != want {
		w.s.t.fatalf("attempt of %v: got %v, want %v", w, out.State, want)
	}
	return out
}

// granted attempts, must be granted, and remembers the token.
func (w *wish) granted() driver.Outcome {
	out := w.mustBe(driver.Granted)
	w.token = out.Token
	return out
}

func (w *wish) busy() driver.Outcome   { return w.mustBe(driver.Busy) }
func (w *wish) queued() driver.Outcome { return w.mustBe(driver.Queued) }

// queuedAt must be in line with that many claims before it.
func (w *wish) queuedAt(place int) {
	if out := w.queued(); out.Place != place {
		w.s.t.fatalf("attempt of %v: got place %d in line, want %d", w, out.Place, place)
	}
}

func (w *wish) withdraw() driver.Removed {
	return w.remove(driver.Withdrawal{})
}

// remove withdraws the claim with the other fields of r.
func (w *wish) remove(r driver.Withdrawal) driver.Removed {
	ctx, cancel := w.s.t.bounded()
	defer cancel()
	r.Seq, r.Name = w.claim.Seq, w.claim.Name
	found, err := w.s.d.Withdraw(ctx, r)
	if err != nil {
		w.s.t.fatalf("withdrawal of %v: %v", w, err)
	}
	return found
}

// mustFind withdraws and compares what the store says it found.
func (w *wish) mustFind(want driver.Removed) {
	w.compareFound(w.withdraw(), want)
}

func (w *wish) compareFound(got, want driver.Removed) {
	if got != want {
		w.s.t.fatalf("withdrawal of %v found it %v, want %v", w, got, want)
	}
}

// maxSpurious bounds how often Await may return for no reason. In a bubble an
// Await that never blocks would stop the clock and so the bound in time.
const maxSpurious = 1000

// await waits until Await itself says that the claim is granted.
func (w *wish) await() driver.Outcome {
	ctx, cancel := w.s.t.bounded()
	defer cancel()
	for range maxSpurious {
		c := w.claim
		out, err := w.s.d.Await(ctx, &c)
		if err != nil {
			w.s.t.fatalf("Await of %v: %v", w, err)
		}
		if out.State == driver.Granted {
			w.token = out.Token
			return out
		}
	}
	w.s.t.fatalf("Await of %v returned %d times without a grant", w, maxSpurious)
	panic("unreachable")
}

// mustHold fails unless exactly these wishes hold the lock, as Inspect sees it.
func (t *scene) mustHold(name string, wishes ...*wish) {
	st := t.inspect(name)
	got := map[driver.ClaimID]driver.Token{}
	for _, h := range st.Holders {
		if !h.Kept {
			got[h.Claim] = h.Token
		}
	}
	for _, w := range wishes {
		token, ok := got[w.id()]
		if !ok {
			t.fatalf("%v does not hold the lock; holders are %v", w, got)
		}
		if w.token != 0 && token != w.token {
			t.fatalf("%v holds with token %v, want %v", w, token, w.token)
		}
	}
	if len(got) != len(wishes) {
		t.fatalf("lock %q has holders %v, want %d", name, got, len(wishes))
	}
}

// mustHaveHeld lets some time pass in which nobody calls the store, and fails
// unless these wishes then have held the lock for all of it. So a store cannot
// put the granting off until somebody looks.
func (t *scene) mustHaveHeld(name string, wishes ...*wish) {
	const share = 4
	t.elapse(t.short / share)
	age := map[driver.ClaimID]time.Duration{}
	for _, h := range t.inspect(name).Holders {
		age[h.Claim] = h.Age
	}
	for _, w := range wishes {
		if got, want := age[w.id()], t.short/share/2; got < want {
			t.fatalf("%v has held the lock for %v, want at least %v: since the call that made room", w, got, want)
		}
	}
}

// mustBeFree fails unless the lock is free and nobody waits for it.
func (t *scene) mustBeFree(name string) {
	st := t.inspect(name)
	if len(st.Holders) > 0 || len(st.Waiters) > 0 || st.Waiting > 0 {
		t.fatalf("lock %q: got holders %v and %d waiting, want a free lock", name, st.Holders, st.Waiting)
	}
}
