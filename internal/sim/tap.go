// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"sync"

	"github.com/fencelock/fencelock/driver"
)

// tap listens between the network and the store: it knows in which order claims
// really arrived, whatever the network did before. It asks the store nothing by
// itself: every call settles what is due, and a bug that only shows when nobody
// calls would never show.
type tap struct {
	driver.Store
	client int
	line   *arrivals
}

// arrivals are the claims of all clients in the order of their first attempt.
type arrivals struct {
	mu          sync.Mutex
	count       int
	incarnation int
	claims      map[driver.ClaimID]*arrival
	order       []*arrival
}

type arrival struct {
	Claim
	incarnation int
}

func newArrivals() *arrivals { return &arrivals{claims: map[driver.ClaimID]*arrival{}} }

// reborn notes a new incarnation.
func (a *arrivals) reborn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.incarnation++
}

// mark is when an attempt got to the store.
type mark struct{ count, incarnation int }

// begin notes that an attempt gets to the store.
func (a *arrivals) begin() mark {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
	return mark{a.count, a.incarnation}
}

// end notes that the store has taken the claim, for the first time or again.
func (a *arrivals) end(m mark, client int, id driver.ClaimID, c *driver.Claim, out driver.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
	r := a.claims[id]
	if r == nil {
		r = &arrival{incarnation: m.incarnation,
			Claim: Claim{Client: client, Name: c.Name, Queue: c.Queue, Reentry: c.Terms.Reentry != "", Before: m.count, After: a.count}}
		a.claims[id] = r
		a.order = append(a.order, r)
	}
	if out.State == driver.Granted {
		r.Token = out.Token
	}
	r.Restless = r.Restless || r.incarnation != a.incarnation
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
func (t *tap) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Life, error) {
	s, life, err := t.Store.Open(ctx, req)
	if err != nil {
		return nil, life, err
	}
	return &tapped{Session: s, t: t, id: req.ID}, life, nil
}

type tapped struct {
	driver.Session
	t  *tap
	id driver.SessionID
}

// Attempt implements driver.Session.
func (s *tapped) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	m := s.t.line.begin()
	out, err := s.Session.Attempt(ctx, c)
	if err == nil && (out.State == driver.Granted || out.State == driver.Queued) {
		s.t.line.end(m, s.t.client, driver.ClaimID{Session: s.id, Seq: c.Seq}, c, out)
	}
	return out, err
}

// Await implements driver.Session.
func (s *tapped) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	out, err := s.Session.Await(ctx, c)
	if out.State == driver.Granted {
		s.t.line.granted(driver.ClaimID{Session: s.id, Seq: c.Seq}, out.Token)
	}
	return out, err
}

func (a *arrivals) granted(id driver.ClaimID, token driver.Token) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.claims[id]; r != nil {
		r.Token = token
	}
}
