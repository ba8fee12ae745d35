// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

// fake is a store that writes down what it executes, and when: "attempt a@3s".
type fake struct {
	driver.Store // for the methods no test here calls
	start        time.Time

	mu  sync.Mutex
	log []string
	// push, if not nil, is what Await waits for.
	push chan struct{}
}

func newFake() *fake { return &fake{start: time.Now()} }

// did writes down one execution and numbers it, from 1.
func (f *fake) did(op Op, name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf("%s %s@%s", op, name, time.Since(f.start)))
	return len(f.log)
}

func (f *fake) executed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

func (f *fake) Caps() driver.Caps { return driver.Caps{Engine: "fake", Push: true} }

func (f *fake) Open(_ context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	f.did(Open, req.Shard)
	return &fakeSession{f: f}, driver.Renewal{TTL: req.TTL}, nil
}

func (f *fake) Inspect(_ context.Context, name string) (driver.Status, error) {
	f.did(Inspect, name)
	return driver.Status{Name: name}, nil
}

func (f *fake) List(context.Context, driver.ListQuery) (driver.Page, error) {
	f.did(List, "")
	return driver.Page{}, nil
}

func (f *fake) Break(_ context.Context, name string, token driver.Token) (driver.Token, error) {
	f.did(Break, name)
	return token + driver.TokenStep, nil
}

func (f *fake) SetLimit(_ context.Context, name string, _ int64) error {
	f.did(SetLimit, name)
	return nil
}

type fakeSession struct {
	driver.Session
	f *fake
}

func (n *fakeSession) KeepAlive(context.Context) (driver.Renewal, error) {
	n.f.did(KeepAlive, "")
	return driver.Renewal{TTL: time.Second}, nil
}

// Attempt is granted with a token that identifies the execution that replied.
func (n *fakeSession) Attempt(_ context.Context, c *driver.Claim) (driver.Outcome, error) {
	i := n.f.did(Attempt, c.Name)
	return driver.Outcome{State: driver.Granted, Token: driver.Token(i) * driver.TokenStep}, nil
}

func (n *fakeSession) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	n.f.did(Await, c.Name)
	select {
	case <-n.f.push:
		return driver.Outcome{State: driver.Granted}, nil
	case <-ctx.Done():
		return driver.Outcome{}, ctx.Err()
	}
}

func (n *fakeSession) Withdraw(_ context.Context, w driver.Withdrawal) (driver.Removed, error) {
	n.f.did(Withdraw, w.Name)
	return driver.WasGranted, nil
}

func (n *fakeSession) Reclaim(_ context.Context, held []driver.Held, _ bool) ([]bool, error) {
	n.f.did(Reclaim, fmt.Sprint(len(held)))
	return make([]bool, len(held)), nil
}

func (n *fakeSession) Close(context.Context) error {
	n.f.did(Close, "")
	return nil
}

// rig is a fake, the wrapper around it and an open session of the wrapper. The
// opening is not in the fake's log.
type rig struct {
	t       *testing.T
	fake    *fake
	store   *Store
	session driver.Session
}

func newRig(t *testing.T, expr string, opts *Options) *rig {
	t.Helper()
	f := newFake()
	s, err := Wrap(f, MustParse(expr), opts)
	must.OK(t, err)
	return &rig{t, f, s, &session{s, "shard", &fakeSession{f: f}}}
}

// attempt attempts name with a context of that length, and returns the outcome
// and how long it took.
func (r *rig) attempt(name string, limit time.Duration) (driver.Outcome, time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	start := time.Now()
	o, err := r.session.Attempt(ctx, &driver.Claim{Seq: 1, Name: name})
	return o, time.Since(start), err
}

// wantExecuted compares the fake's log.
func (r *rig) wantExecuted(want ...string) {
	r.t.Helper()
	if got := r.fake.executed(); !slices.Equal(got, want) {
		r.t.Errorf("executed %q, want %q", got, want)
	}
}

// wantInjected compares the number of one kind.
func (r *rig) wantInjected(k Kind, want int) {
	r.t.Helper()
	if got := r.store.Injected()[k]; got != want {
		r.t.Errorf("injected %d × %s, want %d (all: %v)", got, k, want, r.store.Injected())
	}
}

// wantUnknownAfter checks for an unknown outcome that wraps the context's
// error and took so long.
func wantUnknownAfter(t *testing.T, err error, took, want time.Duration) {
	t.Helper()
	if !errors.Is(err, driver.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want one that wraps ErrUnknown and DeadlineExceeded", err)
	}
	if took != want {
		t.Errorf("returned after %s, want %s", took, want)
	}
}
