// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/faultstore"
)

// Tap is a store whose calls are recorded and can be replaced: a hook gets
// the call and what would have been done. Hooks are set before the first call.
// A hook that does not look at its context is a store that ignores it.
type Tap struct {
	driver.Store
	OnOpen     func(ctx context.Context, req driver.OpenRequest, next OpenFunc) (driver.Session, driver.Renewal, error)
	OnAlive    func(ctx context.Context, next AliveFunc) (driver.Renewal, error)
	OnAttempt  func(ctx context.Context, c *driver.Claim, next AttemptFunc) (driver.Outcome, error)
	OnAwait    func(ctx context.Context, c *driver.Claim, next AttemptFunc) (driver.Outcome, error)
	OnWithdraw func(ctx context.Context, w driver.Withdrawal, next WithdrawFunc) (driver.Removed, error)
	OnClose    func(ctx context.Context) error
	OnReclaim  func(ctx context.Context, held []driver.Held, last bool, next ReclaimFunc) ([]bool, error)

	mu    sync.Mutex
	calls []TapCall
}

// What a hook gets to call.
type (
	OpenFunc     = func(context.Context, driver.OpenRequest) (driver.Session, driver.Renewal, error)
	AliveFunc    = func(context.Context) (driver.Renewal, error)
	AttemptFunc  = func(context.Context, *driver.Claim) (driver.Outcome, error)
	WithdrawFunc = func(context.Context, driver.Withdrawal) (driver.Removed, error)
	ReclaimFunc  = func(context.Context, []driver.Held, bool) ([]bool, error)
)

// TapCall is one call as it was sent.
type TapCall struct {
	Op        faultstore.Op
	At        time.Time
	Name      string
	Seq       uint64
	Tombstone bool
}

// NewTap returns a store without hooks.
func NewTap(store driver.Store) *Tap { return &Tap{Store: store} }

func (s *Tap) record(c TapCall) {
	c.At = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
}

// Sent returns the calls of one operation so far.
func (s *Tap) Sent(op faultstore.Op) (calls []TapCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.Op == op {
			calls = append(calls, c)
		}
	}
	return calls
}

// Total counts all calls so far.
func (s *Tap) Total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// Open implements driver.Store.
func (s *Tap) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	s.record(TapCall{Op: faultstore.Open})
	if before, ok := req.Before.(*tapSession); ok {
		req.Before = before.Session
	}
	open := s.Store.Open
	if s.OnOpen != nil {
		open = func(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
			return s.OnOpen(ctx, req, s.Store.Open)
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
	s *Tap
}

// KeepAlive implements driver.Session.
func (t *tapSession) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	t.s.record(TapCall{Op: faultstore.KeepAlive})
	if t.s.OnAlive != nil {
		return t.s.OnAlive(ctx, t.Session.KeepAlive)
	}
	return t.Session.KeepAlive(ctx)
}

// Attempt implements driver.Session.
func (t *tapSession) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	t.s.record(TapCall{Op: faultstore.Attempt, Name: c.Name, Seq: c.Seq})
	if t.s.OnAttempt != nil {
		return t.s.OnAttempt(ctx, c, t.Session.Attempt)
	}
	return t.Session.Attempt(ctx, c)
}

// Await implements driver.Session.
func (t *tapSession) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	t.s.record(TapCall{Op: faultstore.Await, Name: c.Name, Seq: c.Seq})
	if t.s.OnAwait != nil {
		return t.s.OnAwait(ctx, c, t.Session.Await)
	}
	return t.Session.Await(ctx, c)
}

// Withdraw implements driver.Session.
func (t *tapSession) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	t.s.record(TapCall{Op: faultstore.Withdraw, Name: w.Name, Seq: w.Seq, Tombstone: w.Tombstone})
	if t.s.OnWithdraw != nil {
		return t.s.OnWithdraw(ctx, w, t.Session.Withdraw)
	}
	return t.Session.Withdraw(ctx, w)
}

// Reclaim implements driver.Session.
func (t *tapSession) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	t.s.record(TapCall{Op: faultstore.Reclaim})
	if t.s.OnReclaim != nil {
		return t.s.OnReclaim(ctx, held, last, t.Session.Reclaim)
	}
	return t.Session.Reclaim(ctx, held, last)
}

// Close implements driver.Session.
func (t *tapSession) Close(ctx context.Context) error {
	t.s.record(TapCall{Op: faultstore.Close})
	if t.s.OnClose != nil {
		return t.s.OnClose(ctx)
	}
	return t.Session.Close(ctx)
}
