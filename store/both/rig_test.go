// SPDX-License-Identifier: Apache-2.0

package both_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

const name = "orders/42"

// client returns a process with its own client of a store.
func client(t *testing.T, store driver.Store) *fencelock.Client {
	t.Helper()
	c, err := fencelock.New(store, nil)
	must.OK(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // a case may have ended the store
	return c
}

func lock(t *testing.T, c *fencelock.Client) *fencelock.Lease {
	t.Helper()
	l, err := c.Mutex(name).Lock(t.Context())
	must.OK(t, err)
	return l
}

func unlock(t *testing.T, l *fencelock.Lease) {
	t.Helper()
	must.OK(t, l.Unlock(t.Context()))
}

// session opens a session and returns it.
func session(t *testing.T, store driver.Store) driver.Session {
	t.Helper()
	drv, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard(name), ID: driver.NewSessionID(), TTL: 30 * time.Second})
	must.OK(t, err)
	return drv
}

// claim is an exclusive claim of the lock that waits in queues.
func claim(seq uint64) *driver.Claim {
	return &driver.Claim{Seq: seq, Name: name, Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "test"}}}
}

// mustBe attempts, and fails unless the claim is in that state.
func mustBe(t *testing.T, drv driver.Session, c *driver.Claim, want driver.State) driver.Outcome {
	t.Helper()
	out, err := drv.Attempt(t.Context(), c)
	if err != nil || out.State != want {
		t.Fatalf("attempt: got %v, %v; want %v", out.State, err, want)
	}
	return out
}

// holders is how many holders and waiters a store has.
func holders(t *testing.T, store driver.Store) (n, waiting int) {
	t.Helper()
	st, err := store.Inspect(t.Context(), name)
	must.OK(t, err)
	return len(st.Holders), st.Waiting
}

func mustBeFree(t *testing.T, stores ...driver.Store) {
	t.Helper()
	for i, s := range stores {
		if n, waiting := holders(t, s); n+waiting > 0 {
			t.Errorf("store %d has %d holders and %d waiters, want a free lock", i, n, waiting)
		}
	}
}

// tap is a store that notes the calls which change it, under its own name, in a log that
// several share. Hooks may change what is returned.
type tap struct {
	driver.Store
	name    string
	log     *callLog
	caps    func(*driver.Caps)
	renewal func(*driver.Renewal)
	closing func()
	// before is called before each attempt, and after each withdrawal.
	before, after func()
}

// durable is a store that claims to keep its data.
func durable(store driver.Store) *tap {
	return &tap{Store: store, log: &callLog{}, caps: func(c *driver.Caps) { c.Durability = driver.Durable }}
}

// breakOnly breaks the lock of the only holder of a store.
func breakOnly(t *testing.T, store driver.Store) {
	t.Helper()
	st, err := store.Inspect(t.Context(), name)
	if err != nil || len(st.Holders) != 1 {
		t.Fatal(st, err)
	}
	if _, err := store.Break(t.Context(), name, st.Holders[0].Token); err != nil {
		t.Fatal(err)
	}
}

type callLog struct {
	mu    sync.Mutex
	calls []string
}

func (l *callLog) add(call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, call)
}

// take returns the calls so far and begins again.
func (l *callLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := slices.Clone(l.calls)
	l.calls = nil
	return calls
}

func (s *tap) Caps() driver.Caps {
	c := s.Store.Caps()
	if s.caps != nil {
		s.caps(&c)
	}
	return c
}

func (s *tap) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if before, ok := req.Before.(*tapSession); ok {
		req.Before = before.Session
	}
	drv, r, err := s.Store.Open(ctx, req)
	return &tapSession{drv, s}, s.renewed(r), err
}

func (s *tap) renewed(r driver.Renewal) driver.Renewal {
	if s.renewal != nil {
		s.renewal(&r)
	}
	return r
}

type tapSession struct {
	driver.Session
	s *tap
}

func (s *tapSession) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	r, err := s.Session.KeepAlive(ctx)
	return s.s.renewed(r), err
}

func (s *tapSession) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	s.s.log.add(s.s.name + " attempt")
	if s.s.before != nil {
		s.s.before()
	}
	return s.Session.Attempt(ctx, c)
}

func (s *tapSession) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	s.s.log.add(s.s.name + " withdraw")
	if s.s.after != nil {
		defer s.s.after()
	}
	return s.Session.Withdraw(ctx, w)
}

func (s *tapSession) Close(ctx context.Context) error {
	if s.s.closing != nil {
		s.s.closing()
	}
	return s.Session.Close(ctx)
}
