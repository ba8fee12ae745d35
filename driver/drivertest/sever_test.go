// SPDX-License-Identifier: Apache-2.0

package drivertest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
)

// cutStore is a store whose connection can be cut. A call on a cut connection gets no
// answer; whether it was done is left open by doing half of them.
type cutStore struct {
	driver.Store
	cut   *atomic.Bool
	calls atomic.Int64
}

type cutSession struct {
	driver.Session
	store *cutStore
}

// over does a call over the connection. A cut one still carries every other request;
// it is the reply that never comes.
func over[V any](ctx context.Context, l *cutStore, do func(context.Context) (V, error)) (V, error) {
	if !l.cut.Load() {
		return do(ctx)
	}
	if l.calls.Add(1)%2 == 0 {
		do(ctx)
	}
	<-ctx.Done()
	var zero V
	return zero, fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
}

type opened struct {
	session driver.Session
	renewal driver.Renewal
}

func (l *cutStore) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	o, err := over(ctx, l, func(ctx context.Context) (opened, error) {
		s, renewal, err := l.Store.Open(ctx, req)
		return opened{cutSession{s, l}, renewal}, err
	})
	return o.session, o.renewal, err
}

func (l *cutStore) Inspect(ctx context.Context, name string) (driver.Status, error) {
	return over(ctx, l, func(ctx context.Context) (driver.Status, error) { return l.Store.Inspect(ctx, name) })
}

func (l *cutStore) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	return over(ctx, l, func(ctx context.Context) (driver.Page, error) { return l.Store.List(ctx, q) })
}

func (l *cutStore) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	return over(ctx, l, func(ctx context.Context) (driver.Token, error) { return l.Store.Break(ctx, name, token) })
}

func (l *cutStore) SetLimit(ctx context.Context, name string, limit int64) error {
	_, err := over(ctx, l, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.Store.SetLimit(ctx, name, limit)
	})
	return err
}

func (s cutSession) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	return over(ctx, s.store, s.Session.KeepAlive)
}

func (s cutSession) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	return over(ctx, s.store, func(ctx context.Context) (driver.Outcome, error) { return s.Session.Attempt(ctx, c) })
}

func (s cutSession) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	return over(ctx, s.store, func(ctx context.Context) (driver.Removed, error) { return s.Session.Withdraw(ctx, w) })
}

func (s cutSession) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	return over(ctx, s.store, func(ctx context.Context) ([]bool, error) { return s.Session.Reclaim(ctx, held, last) })
}

func (s cutSession) Close(ctx context.Context) error {
	_, err := over(ctx, s.store, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Session.Close(ctx) })
	return err
}

func TestPassesOverAConnectionThatCanBeCut(t *testing.T) {
	drivertest.RunInBubble(t, func(*testing.T) *drivertest.Harness {
		h := harness(nil)
		open, cut := h.Open, &atomic.Bool{}
		h.Open = func() (driver.Store, error) {
			store, err := open()
			return &cutStore{Store: store, cut: cut}, err
		}
		h.Sever = func() func() {
			cut.Store(true)
			return func() { cut.Store(false) }
		}
		return h
	})
}

// deafSession ignores the end of a context when its connection is cut.
type deafSession struct {
	driver.Session
	cut *atomic.Bool
}

type deafStore struct {
	driver.Store
	cut *atomic.Bool
}

func (s deafStore) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	session, renewal, err := s.Store.Open(ctx, req)
	return deafSession{session, s.cut}, renewal, err
}

func (s deafSession) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	if s.cut.Load() {
		select {}
	}
	return s.Session.KeepAlive(ctx)
}

func TestFindsACallThatDoesNotReturn(t *testing.T) {
	h := harness(nil)
	open, cut := h.Open, &atomic.Bool{}
	h.Open = func() (driver.Store, error) {
		store, err := open()
		return deafStore{store, cut}, err
	}
	h.Sever = func() func() {
		cut.Store(true)
		return func() { cut.Store(false) }
	}
	h.Soon = 2 * time.Second // a busy machine is late, too
	for _, c := range drivertest.Cases() {
		if c.Name != "X4/silent server" {
			continue
		}
		if res := c.Check(t.Context(), h); len(res.Failures) != 1 {
			t.Errorf("got failures %v, want one about KeepAlive", res.Failures)
		}
	}
}

// punctualSession ends its calls with a deadline, as a connection does, and knows
// nothing of being canceled.
type punctualSession struct {
	driver.Session
	cut *atomic.Bool
}

func (s punctualSession) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	if !s.cut.Load() {
		return s.Session.KeepAlive(ctx)
	}
	at, ok := ctx.Deadline()
	if !ok {
		select {}
	}
	<-time.After(time.Until(at))
	return driver.Renewal{}, driver.ErrUnknown
}

type punctualStore struct {
	*cutStore
}

func (s punctualStore) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	session, renewal, err := s.cutStore.Open(ctx, req)
	return punctualSession{session, s.cutStore.cut}, renewal, err
}

func TestFindsACallThatCannotBeCanceled(t *testing.T) {
	h := harness(nil)
	open, cut := h.Open, &atomic.Bool{}
	h.Open = func() (driver.Store, error) {
		store, err := open()
		return punctualStore{&cutStore{Store: store, cut: cut}}, err
	}
	h.Sever = func() func() {
		cut.Store(true)
		return func() { cut.Store(false) }
	}
	h.Soon = 2 * time.Second // a busy machine is late, too
	found := map[string]int{}
	for _, c := range drivertest.Cases() {
		if c.Name == "X4/silent server" || c.Name == "X4/silent server and a canceled call" {
			found[c.Name] = len(c.Check(t.Context(), h).Failures)
		}
	}
	if found["X4/silent server"] != 0 || found["X4/silent server and a canceled call"] != 1 {
		t.Errorf("got numbers of failures %v, want one with the canceled call", found)
	}
}
