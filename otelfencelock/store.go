// SPDX-License-Identifier: Apache-2.0

package otelfencelock

import (
	"context"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// meteredStore measures the calls to a store and changes none of them.
type meteredStore struct {
	driver.Store
	m *meters
}

// measured makes a call and records how long it took. The context of the call
// may have ended by then, which is no reason not to count it.
func measured[T any](ctx context.Context, m *meters, operation string, call func() (T, error)) (T, error) {
	sent := time.Now()
	v, err := call()
	failure := errorKey.String(callError(err))
	m.operation.Record(ctx, time.Since(sent).Seconds(), m.set(operationKey.String(operation), failure))
	if err != nil {
		m.failures.Add(ctx, 1, m.set(failure))
	}
	return v, err
}

// nothing is the result of calls that have none.
type nothing = struct{}

// Open measures the session it opens, too.
func (s *meteredStore) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if before, ok := req.Before.(*meteredSession); ok {
		req.Before = before.Session
	}
	sent := time.Now()
	session := &meteredSession{m: s.m, sent: sent}
	_, err := measured(ctx, s.m, "open", func() (_ nothing, err error) {
		var renewal driver.Renewal
		session.Session, renewal, err = s.Store.Open(ctx, req)
		session.renewal = renewal
		return nothing{}, err
	})
	if err != nil {
		return nil, driver.Renewal{}, err
	}
	return session, session.renewal, nil
}

func (s *meteredStore) Inspect(ctx context.Context, name string) (driver.Status, error) {
	return measured(ctx, s.m, "inspect", func() (driver.Status, error) { return s.Store.Inspect(ctx, name) })
}

func (s *meteredStore) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	return measured(ctx, s.m, "list", func() (driver.Page, error) { return s.Store.List(ctx, q) })
}

func (s *meteredStore) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	return measured(ctx, s.m, "break", func() (driver.Token, error) { return s.Store.Break(ctx, name, token) })
}

func (s *meteredStore) SetLimit(ctx context.Context, name string, limit int64) error {
	_, err := measured(ctx, s.m, "set_limit", func() (nothing, error) { return nothing{}, s.Store.SetLimit(ctx, name, limit) })
	return err
}

// meteredSession measures the calls of a session, but not Await, which waits
// for other holders and not for the store.
type meteredSession struct {
	driver.Session
	m *meters

	mu      sync.Mutex
	sent    time.Time // of the last call that the store confirmed
	renewal driver.Renewal
}

func (s *meteredSession) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	sent := time.Now()
	renewal, err := measured(ctx, s.m, "keep_alive", func() (driver.Renewal, error) { return s.Session.KeepAlive(ctx) })
	s.m.renewals.Add(ctx, 1, s.m.set(outcomeKey.String(renewalOutcome(err)), errorKey.String(callError(err))))
	if err != nil {
		return renewal, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.headroom.Record(ctx, headroom(time.Since(s.sent), s.renewal.TTL), s.m.set())
	s.sent, s.renewal = sent, renewal
	return renewal, nil
}

// headroom is the share of the TTL that is left some time after the last call
// that the store confirmed was sent.
func headroom(since, ttl time.Duration) float64 {
	if ttl <= 0 {
		return 0
	}
	return max(0, 1-since.Seconds()/ttl.Seconds())
}

func renewalOutcome(err error) string {
	if err == nil {
		return "renewed"
	}
	return "failed"
}

func (s *meteredSession) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	return measured(ctx, s.m, "attempt", func() (driver.Outcome, error) { return s.Session.Attempt(ctx, c) })
}

func (s *meteredSession) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	return measured(ctx, s.m, "withdraw", func() (driver.Removed, error) { return s.Session.Withdraw(ctx, w) })
}

func (s *meteredSession) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	return measured(ctx, s.m, "reclaim", func() ([]bool, error) { return s.Session.Reclaim(ctx, held, last) })
}

func (s *meteredSession) Close(ctx context.Context) error {
	_, err := measured(ctx, s.m, "close", func() (nothing, error) { return nothing{}, s.Session.Close(ctx) })
	return err
}
