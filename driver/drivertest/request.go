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
	t       *scene
	d       driver.Session
	store   driver.Store
	req     driver.OpenRequest
	renewal driver.Renewal
	// ttl is the TTL the store answered with.
	ttl time.Duration
	seq uint64
	// notices has the claims that the store called Contended with. Of many at once some may
	// be dropped: a store may repeat a notice.
	notices chan uint64
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
	notices := make(chan uint64, 64)
	if req.Contended == nil {
		req.Contended = func(seq uint64) {
			select {
			case notices <- seq:
			default:
			}
		}
	}
	d, renewal, err := store.Open(ctx, req)
	if err != nil {
		t.fatalf("Open with a TTL of %v: %v", req.TTL, err)
	}
	t.cleanup(func() {
		// What the store answers for a session the case has already ended is not
		// the matter of this case.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), t.soon)
		defer cancel()
		d.Close(ctx)
	})
	s := &session{t: t, d: d, store: store, req: req, renewal: renewal, ttl: renewal.TTL, notices: notices}
	if s.ttl <= 0 {
		s.ttl = req.TTL // by S6; the other cases must not hang on it
	}
	return s
}

// resumeOn opens the session again through a store value.
func (s *session) resumeOn(store driver.Store) *session {
	return s.resumeWith(store, s.d)
}

// resumeWith opens the session again with a value in Before.
func (s *session) resumeWith(store driver.Store, before driver.Session) *session {
	req := s.req
	req.Before = before
	again := s.t.openRequest(store, req)
	again.seq, again.notices = s.seq, s.notices
	return again
}

// resume opens the session again where it was opened.
func (s *session) resume() *session { return s.resumeOn(s.store) }

func (s *session) keepAlive() driver.Renewal {
	ctx, cancel := s.t.bounded()
	defer cancel()
	renewal, err := s.d.KeepAlive(ctx)
	if err != nil {
		s.t.fatalf("KeepAlive of a live session: %v", err)
	}
	return renewal
}

func (s *session) close() {
	ctx, cancel := s.t.bounded()
	defer cancel()
	if err := s.d.Close(ctx); err != nil {
		s.t.fatalf("Close: %v", err)
	}
}

// reclaim asks for grants back, as one batch of several.
func (s *session) reclaim(requests ...*request) []bool { return s.reclaimBatch(false, requests...) }

func (s *session) reclaimBatch(last bool, requests ...*request) []bool {
	ctx, cancel := s.t.bounded()
	defer cancel()
	held := make([]driver.Held, len(requests))
	for i, w := range requests {
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

// request is one claim on a session, and the token it was last granted with.
type request struct {
	s     *session
	claim driver.Claim
	token driver.Token
}

// term changes what a request asks for.
type term func(*driver.Claim)

func queueing(c *driver.Claim) { c.Queue = true }
func watched(c *driver.Claim)  { c.Watch = true }
func shared(c *driver.Claim)   { c.Terms.Mode = driver.Shared }

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
func (s *session) want(name string, terms ...term) *request {
	s.seq++
	w := &request{s: s, claim: driver.Claim{Seq: s.seq, Name: name, Terms: &driver.Terms{
		Weight: 1, Record: &driver.Record{Owner: fmt.Sprintf("drivertest:%d", s.seq)},
	}}}
	for _, f := range terms {
		f(&w.claim)
	}
	return w
}

// grant makes a claim that must be granted at once.
func (s *session) grant(name string, terms ...term) *request {
	w := s.want(name, terms...)
	w.granted()
	return w
}

// queue makes a claim that must come into the queue.
func (s *session) queue(name string, terms ...term) *request {
	w := s.want(name, append(terms, queueing)...)
	w.queued()
	return w
}

// on returns the same request on another value of its session.
func (w *request) on(s *session) *request { return &request{s: s, claim: w.claim, token: w.token} }

func (w *request) id() driver.ClaimID {
	return driver.ClaimID{Session: w.s.req.ID, Seq: w.claim.Seq}
}

func (w *request) String() string { return fmt.Sprintf("%v for %q", w.id(), w.claim.Name) }

func (w *request) attempt() driver.Outcome {
	ctx, cancel := w.s.t.bounded()
	defer cancel()
	c := w.claim
	out, err := w.s.d.Attempt(ctx, &c)
	if err != nil {
		w.s.t.fatalf("attempt of %v: %v", w, err)
	}
	return out
}

func (w *request) mustBe(want driver.State) driver.Outcome {
	out := w.attempt()
	if out.State != want {
		w.s.t.fatalf("attempt of %v: got %v, want %v", w, out.State, want)
	}
	return out
}

// granted attempts, must be granted, and remembers the token.
func (w *request) granted() driver.Outcome {
	out := w.mustBe(driver.Granted)
	w.token = out.Token
	return out
}

func (w *request) busy() driver.Outcome   { return w.mustBe(driver.Busy) }
func (w *request) queued() driver.Outcome { return w.mustBe(driver.Queued) }

// queuedAt must be in the queue with that many claims before it.
func (w *request) queuedAt(place int) {
	if out := w.queued(); out.Position != place {
		w.s.t.fatalf("attempt of %v: got position %d in the queue, want %d", w, out.Position, place)
	}
}

func (w *request) withdraw() driver.Removed {
	return w.remove(driver.Withdrawal{})
}

// remove withdraws the claim with the other fields of r.
func (w *request) remove(r driver.Withdrawal) driver.Removed {
	ctx, cancel := w.s.t.bounded()
	defer cancel()
	r.Seq, r.Name = w.claim.Seq, w.claim.Name
	found, err := w.s.d.Withdraw(ctx, r)
	if err != nil {
		w.s.t.fatalf("withdrawal of %v: %v", w, err)
	}
	return found
}

// mustFind withdraws and compares what the store found.
func (w *request) mustFind(want driver.Removed) {
	w.compareFound(w.withdraw(), want)
}

func (w *request) compareFound(got, want driver.Removed) {
	if got != want {
		w.s.t.fatalf("withdrawal of %v found it %v, want %v", w, got, want)
	}
}

// maxSpurious bounds how often Await may return for no reason. In a bubble an
// Await that never blocks would stop the clock and so the bound in time.
const maxSpurious = 1000

// await waits until Await itself returns that the claim is granted.
func (w *request) await() driver.Outcome {
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

// mustHold fails unless exactly these requests hold the lock, as Inspect sees it.
func (t *scene) mustHold(name string, requests ...*request) {
	st := t.inspect(name)
	got := map[driver.ClaimID]driver.Token{}
	for _, h := range st.Holders {
		if !h.Kept {
			got[h.Claim] = h.Token
		}
	}
	for _, w := range requests {
		token, ok := got[w.id()]
		if !ok {
			t.fatalf("%v does not hold the lock; holders are %v", w, got)
		}
		if w.token != 0 && token != w.token {
			t.fatalf("%v holds with token %v, want %v", w, token, w.token)
		}
	}
	if len(got) != len(requests) {
		t.fatalf("lock %q has holders %v, want %d", name, got, len(requests))
	}
}

// mustHaveHeld lets some time pass in which no call is made, and fails
// unless these requests then have held the lock for all of it. So a store cannot
// put the granting off until the next call.
func (t *scene) mustHaveHeld(name string, requests ...*request) {
	const share = 4
	t.elapse(t.short / share)
	age := map[driver.ClaimID]time.Duration{}
	for _, h := range t.inspect(name).Holders {
		age[h.Claim] = h.Age
	}
	for _, w := range requests {
		if got, want := age[w.id()], t.short/share/2; got < want {
			t.fatalf("%v has held the lock for %v, want at least %v: since the call that made room", w, got, want)
		}
	}
}

// mustBeFree fails unless the lock is free and no claim waits for it.
func (t *scene) mustBeFree(name string) {
	st := t.inspect(name)
	if len(st.Holders) > 0 || len(st.Waiters) > 0 || st.Waiting > 0 {
		t.fatalf("lock %q: got holders %v and %d waiting, want a free lock", name, st.Holders, st.Waiting)
	}
}
