// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Options are what a Store needs in addition to the fault. The zero value, or nil,
// is enough for faults that need no hook.
type Options struct {
	// Reset makes the server lose its data: all of it, or what a lagging
	// replica would not know. reset(all) and reset(some) need it.
	Reset func(all bool)
	// Step makes the server's clock jump. step needs it.
	Step func(d time.Duration)
	// Pauser is shared by wrappers that are to pause together. Nil gives the
	// wrapper its own Pauser.
	Pauser *Pauser
	// LateLimit bounds how long a call goes on after its caller has gone: what
	// has not landed by then never does. The default is one minute; keep it
	// above the longest delay and pause.
	LateLimit time.Duration
}

// defaultLateLimit is the default of Options.LateLimit.
const defaultLateLimit = time.Minute

// Store is a store whose calls are bent by a fault.
type Store struct {
	store     driver.Store
	opts      Options
	pauser    *Pauser
	lateLimit time.Duration
	start     time.Time
	late      lateCalls

	mu       sync.Mutex // guards what follows; never held while waiting
	match    matcher
	calls    map[callKey]int // how many there were
	counts   map[Kind]int
	cutUntil time.Time
}

var _ driver.Store = (*Store)(nil)

// Wrap returns store, bent by fault. Each wrapper counts calls and time for
// itself, from now. It returns an error for a fault with bad arguments, for one
// that needs a hook that opts does not have, and for one with a part that can
// never strike, because a test with such a fault would pass for the wrong
// reason.
func Wrap(store driver.Store, fault Fault, opts *Options) (*Store, error) {
	if store == nil {
		return nil, errors.New("faultstore: no store to wrap")
	}
	if opts == nil {
		opts = new(Options)
	}
	if opts.LateLimit < 0 {
		return nil, fmt.Errorf("faultstore: Options.LateLimit is %s; want at least 0s", opts.LateLimit)
	}
	fault = orNone(fault)
	if err := fault.check(scope{allOps, opts}); err != nil {
		return nil, fmt.Errorf("faultstore: %w", err)
	}
	s := &Store{
		store:     store,
		opts:      *opts,
		pauser:    opts.Pauser,
		lateLimit: opts.LateLimit,
		start:     time.Now(),
		match:     fault.compile(),
		calls:     make(map[callKey]int),
		counts:    make(map[Kind]int),
	}
	if s.pauser == nil {
		s.pauser = new(Pauser)
	}
	if s.lateLimit == 0 {
		s.lateLimit = defaultLateLimit
	}
	return s, nil
}

// Unwrap returns the store that Wrap was given.
func (s *Store) Unwrap() driver.Store { return s.store }

// Check implements driver.Checker: it asks the wrapped store, without faults. A store that
// is not a driver.Checker has no findings.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) {
	if c, ok := s.store.(driver.Checker); ok {
		return c.Check(ctx)
	}
	return nil, nil
}

// Wait returns when every call that went on without its caller has ended. A
// test in a synctest bubble calls it before it returns.
func (s *Store) Wait() { s.late.wait() }

// callKey is what prob counts calls by.
type callKey struct {
	op    Op
	about string
}

// decide asks the fault about one call.
func (s *Store) decide(c *call) *plan {
	p := new(plan)
	s.mu.Lock()
	defer s.mu.Unlock()
	key := callKey{c.op, c.about}
	c.index = s.calls[key]
	s.calls[key]++
	c.since = time.Since(s.start)
	s.match(c, p)
	return p
}

// cut cuts the connection for d from now, or longer if it already was.
func (s *Store) cut(d time.Duration) {
	until := time.Now().Add(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	if until.After(s.cutUntil) {
		s.cutUntil = until
	}
}

func (s *Store) isCut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.cutUntil)
}

// Caps returns the wrapped store's. No fault changes them.
func (s *Store) Caps() driver.Caps { return s.store.Caps() }

// Shard returns the wrapped store's. No fault changes it.
func (s *Store) Shard(name string) string { return s.store.Shard(name) }

// Open opens a session whose calls are bent, too.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	type opened struct {
		session driver.Session
		renewal driver.Renewal
	}
	if wanted := req.Contended; wanted != nil {
		req.Contended = func(seq uint64) {
			if !s.isCut() { // or the notice is lost, as any message
				wanted(seq)
			}
		}
	}
	if before, ok := req.Before.(*session); ok {
		req.Before = before.inner
	}
	c := aboutShard(Open, req.Shard)
	o, err := travel(ctx, s, c, func(ctx context.Context) (opened, error) {
		inner, renewal, err := s.store.Open(ctx, req)
		return opened{inner, renewal}, err
	})
	if err != nil {
		return nil, o.renewal, err
	}
	return &session{s, req.Shard, o.session}, o.renewal, nil
}

// Inspect is the wrapped store's Inspect, bent.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	c := aboutLock(Inspect, name)
	return travel(ctx, s, c, func(ctx context.Context) (driver.Status, error) {
		return s.store.Inspect(ctx, name)
	})
}

// List is the wrapped store's List, bent.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	return travel(ctx, s, &call{op: List, about: q.Prefix}, func(ctx context.Context) (driver.Page, error) {
		return s.store.List(ctx, q)
	})
}

// Break is the wrapped store's Break, bent.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	c := aboutLock(Break, name)
	return travel(ctx, s, c, func(ctx context.Context) (driver.Token, error) {
		return s.store.Break(ctx, name, token)
	})
}

// SetLimit is the wrapped store's SetLimit, bent.
func (s *Store) SetLimit(ctx context.Context, name string, limit int64) error {
	c := aboutLock(SetLimit, name)
	_, err := travel(ctx, s, c, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.store.SetLimit(ctx, name, limit)
	})
	return err
}
