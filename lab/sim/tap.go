// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"sync"

	"github.com/fencelock/fencelock/driver"
)

// tap listens between the network and the store: it knows in which order claims
// really arrived, whatever the network did before. It asks the store nothing by
// itself: every call does what is due, and a bug that only shows when no client
// calls would never show.
type tap struct {
	driver.Store
	client int
	line   *arrivals
	// closing makes a call of Close or Withdraw and returns its place in the history.
	closing func(call func() error) (place int, err error)
	// notices are those of the client; nil passes all of them.
	notices *notices
}

// arrivals are the claims of all clients in the order of their first attempt.
type arrivals struct {
	place       func() int // in the history
	instances   *instances
	mu          sync.Mutex
	count       int
	incarnation int
	claims      map[claimInstance]*arrival
	order       []*arrival
	owners      map[driver.SessionID]int // the clients of sessions
	ended       map[driver.SessionID]int // the places in the history where the store ended sessions
	withdrawn   map[driver.ClaimID]int   // the same for claims
	answered    map[driver.ClaimID]bool  // the clients of those know it
	grants      map[grant]int            // the instances that granted them
}

// claimInstance is a claim of one instance of its session. The claims of a session
// end with it: if the session is opened again, a late attempt of one of them is a new
// arrival.
type claimInstance struct {
	driver.ClaimID
	instance int
}

// grant is a token of a claim.
type grant struct {
	driver.ClaimID
	token driver.Token
}

type arrival struct {
	Claim
	incarnation int
}

func newArrivals(place func() int) *arrivals {
	return &arrivals{place: place, instances: newInstances(), claims: map[claimInstance]*arrival{}, owners: map[driver.SessionID]int{},
		ended: map[driver.SessionID]int{}, withdrawn: map[driver.ClaimID]int{}, answered: map[driver.ClaimID]bool{}, grants: map[grant]int{}}
}

// opens notes whose a session is.
func (a *arrivals) opens(id driver.SessionID, client int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owners[id] = client
}

// owner returns the client of a session.
func (a *arrivals) owner(id driver.SessionID) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.owners[id]
}

// ends notes where the store ended a session.
func (a *arrivals) ends(id driver.SessionID, place int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended[id] = place
}

// endedAt returns the place in the history where the store ended a session.
func (a *arrivals) endedAt(id driver.SessionID) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended[id]
}

// withdraws notes where the store removed a claim.
func (a *arrivals) withdraws(id driver.ClaimID, place int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.withdrawn[id] = place
}

// answers notes that the client of a claim knows that the store removed it.
func (a *arrivals) answers(id driver.ClaimID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answered[id] = true
}

// withdrawnAt returns the place in the history where the store removed a claim, or
// 0 if its client does not know of that.
func (a *arrivals) withdrawnAt(id driver.ClaimID) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.answered[id] {
		return 0
	}
	return a.withdrawn[id]
}

// reborn notes a new incarnation.
func (a *arrivals) reborn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.incarnation++
}

// mark is when an attempt got to the store.
type mark struct{ count, incarnation, place int }

// begin notes that an attempt gets to the store.
func (a *arrivals) begin() mark {
	place := a.place()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
	return mark{a.count, a.incarnation, place}
}

// end notes that the store has taken the claim, for the first time or again.
func (a *arrivals) end(m mark, client int, id claimInstance, c *driver.Claim, out driver.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
	r := a.claims[id]
	if r == nil {
		r = &arrival{incarnation: m.incarnation,
			Claim: Claim{Client: client, Name: c.Name, Queue: c.Queue, Reentry: c.Terms.Reentry != "", Before: m.count, After: a.count, Position: m.place}}
		a.claims[id] = r
		a.order = append(a.order, r)
	}
	r.Position = min(r.Position, m.place) // of a request that was sent twice
	r.Restless = r.Restless || r.incarnation != a.incarnation
	if out.State == driver.Granted {
		a.grant(r, id, out.Token)
	}
}

// grant notes a token of the claim. If an earlier instance granted it, the claim got
// it by Reclaim and not by its position in the queue.
func (a *arrivals) grant(r *arrival, id claimInstance, token driver.Token) {
	g := grant{id.ClaimID, token}
	if by, is := a.grants[g]; !is {
		a.grants[g] = id.instance
	} else if by != id.instance {
		r.Reclaimed = true
	}
	if r.Token != 0 && r.Token != token {
		r.Again = token
		return
	}
	r.Token = token
}

// list returns the claims in the order in which they arrived.
func (a *arrivals) list() []Claim {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]Claim, len(a.order))
	for i, r := range a.order {
		out[i] = r.Claim
	}
	sortBy(out, func(c Claim) int { return c.Before })
	return out
}

// Open implements driver.Store.
func (t *tap) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	t.line.opens(req.ID, t.client)
	req.Contended = t.notices.through(req.Contended)
	if before, ok := req.Before.(*tapped); ok {
		req.Before = before.Session
	}
	var s driver.Session
	answer, err := t.line.instances.open(req.ID, func() (answer driver.Renewal, err error) {
		s, answer, err = t.Store.Open(ctx, req)
		return answer, err
	})
	if err != nil {
		return nil, answer, err
	}
	return &tapped{Session: s, t: t, id: req.ID}, answer, nil
}

type tapped struct {
	driver.Session
	t  *tap
	id driver.SessionID
}

// KeepAlive implements driver.Session.
func (s *tapped) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	return s.t.line.instances.renew(s.id, func() (driver.Renewal, error) { return s.Session.KeepAlive(ctx) })
}

// Attempt implements driver.Session.
func (s *tapped) Attempt(ctx context.Context, c *driver.Claim) (out driver.Outcome, err error) {
	m := s.t.line.begin()
	s.t.line.instances.during(s.id, func(instance int) {
		out, err = s.Session.Attempt(ctx, c)
		if err == nil && (out.State == driver.Granted || out.State == driver.Queued) {
			s.t.line.end(m, s.t.client, s.claim(c, instance), c, out)
		}
	})
	return out, err
}

func (s *tapped) claim(c *driver.Claim, instance int) claimInstance {
	return claimInstance{driver.ClaimID{Session: s.id, Seq: c.Seq}, instance}
}

// Await implements driver.Session.
func (s *tapped) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	instance := s.t.line.instances.newest(s.id)
	out, err := s.Session.Await(ctx, c)
	// If a new instance began during the call, the token may be of either.
	if out.State == driver.Granted && instance == s.t.line.instances.newest(s.id) {
		s.t.line.granted(s.claim(c, instance), out.Token)
	}
	return out, err
}

func (a *arrivals) granted(id claimInstance, token driver.Token) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.claims[id]; r != nil {
		a.grant(r, id, token)
	}
}

// Withdraw implements driver.Session.
func (s *tapped) Withdraw(ctx context.Context, w driver.Withdrawal) (found driver.Removed, err error) {
	place, err := s.t.closing(func() error {
		found, err = s.Session.Withdraw(ctx, w)
		return err
	})
	if err == nil {
		s.t.line.withdraws(driver.ClaimID{Session: s.id, Seq: w.Seq}, place)
	}
	return found, err
}

// Close implements driver.Session.
func (s *tapped) Close(ctx context.Context) error {
	place, err := s.t.closing(func() error {
		return s.t.line.instances.close(s.id, func() error { return s.Session.Close(ctx) })
	})
	if err == nil {
		s.t.line.ends(s.id, place)
	}
	return err
}
