// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/faultstore"
)

// tapStore is a store whose calls are recorded and can be replaced: a hook gets
// the call and what would have been done. Hooks are set before the first call.
// A hook that does not look at its context is a store that ignores it.
type tapStore struct {
	driver.Store
	onOpen     func(ctx context.Context, req driver.OpenRequest, next openFunc) (driver.Session, driver.Renewal, error)
	onAlive    func(ctx context.Context, next aliveFunc) (driver.Renewal, error)
	onAttempt  func(ctx context.Context, c *driver.Claim, next attemptFunc) (driver.Outcome, error)
	onAwait    func(ctx context.Context, c *driver.Claim, next attemptFunc) (driver.Outcome, error)
	onWithdraw func(ctx context.Context, w driver.Withdrawal, next withdrawFunc) (driver.Removed, error)
	onClose    func(ctx context.Context) error
	onReclaim  func(ctx context.Context, held []driver.Held, last bool, next reclaimFunc) ([]bool, error)

	mu    sync.Mutex
	calls []tapCall
}

type (
	openFunc     = func(context.Context, driver.OpenRequest) (driver.Session, driver.Renewal, error)
	aliveFunc    = func(context.Context) (driver.Renewal, error)
	attemptFunc  = func(context.Context, *driver.Claim) (driver.Outcome, error)
	withdrawFunc = func(context.Context, driver.Withdrawal) (driver.Removed, error)
	reclaimFunc  = func(context.Context, []driver.Held, bool) ([]bool, error)
)

// tapCall is one call as it was sent.
type tapCall struct {
	op        faultstore.Op
	at        time.Time
	name      string
	seq       uint64
	tombstone bool
}

func tap(store driver.Store) *tapStore { return &tapStore{Store: store} }

func (s *tapStore) record(c tapCall) {
	c.at = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
}

// sent returns the calls of one operation so far.
func (s *tapStore) sent(op faultstore.Op) (calls []tapCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.op == op {
			calls = append(calls, c)
		}
	}
	return calls
}

// total counts all calls so far.
func (s *tapStore) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

func (s *tapStore) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	s.record(tapCall{op: faultstore.Open})
	open := s.Store.Open
	if s.onOpen != nil {
		open = func(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
			return s.onOpen(ctx, req, s.Store.Open)
		}
	}
	ss, renewal, err := open(ctx, req)
	if err != nil {
		return nil, renewal, err
	}
	return &tapSession{ss, s}, renewal, nil
}

type tapSession struct {
	driver.Session
	s *tapStore
}

func (t *tapSession) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	t.s.record(tapCall{op: faultstore.KeepAlive})
	if t.s.onAlive != nil {
		return t.s.onAlive(ctx, t.Session.KeepAlive)
	}
	return t.Session.KeepAlive(ctx)
}

func (t *tapSession) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	t.s.record(tapCall{op: faultstore.Attempt, name: c.Name, seq: c.Seq})
	if t.s.onAttempt != nil {
		return t.s.onAttempt(ctx, c, t.Session.Attempt)
	}
	return t.Session.Attempt(ctx, c)
}

func (t *tapSession) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	t.s.record(tapCall{op: faultstore.Await, name: c.Name, seq: c.Seq})
	if t.s.onAwait != nil {
		return t.s.onAwait(ctx, c, t.Session.Await)
	}
	return t.Session.Await(ctx, c)
}

func (t *tapSession) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	t.s.record(tapCall{op: faultstore.Withdraw, name: w.Name, seq: w.Seq, tombstone: w.Tombstone})
	if t.s.onWithdraw != nil {
		return t.s.onWithdraw(ctx, w, t.Session.Withdraw)
	}
	return t.Session.Withdraw(ctx, w)
}

func (t *tapSession) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	t.s.record(tapCall{op: faultstore.Reclaim})
	if t.s.onReclaim != nil {
		return t.s.onReclaim(ctx, held, last, t.Session.Reclaim)
	}
	return t.Session.Reclaim(ctx, held, last)
}

func (t *tapSession) Close(ctx context.Context) error {
	t.s.record(tapCall{op: faultstore.Close})
	if t.s.onClose != nil {
		return t.s.onClose(ctx)
	}
	return t.Session.Close(ctx)
}

// errNoAuth is an answer that trying again does not change.
var errNoAuth = errors.New("NOAUTH authentication required")

// stuck is a place where calls hang whatever their context says.
type stuck chan struct{}

func (s stuck) hang() { <-s }
