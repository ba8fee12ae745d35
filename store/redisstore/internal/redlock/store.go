// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/foreign"
)

// Store is a store over several servers.
type Store struct {
	nodes []*foreign.Store
	name  string
}

var _ driver.Store = (*Store)(nil)

// New returns a store over stores of single servers. name begins errors.
func New(name string, nodes []*foreign.Store) *Store {
	return &Store{nodes: nodes, name: name}
}

// majority is how many servers decide.
func (s *Store) majority() int { return len(s.nodes)/2 + 1 }

// Caps implements driver.Store.
func (s *Store) Caps() driver.Caps { return s.nodes[0].Caps() }

// Shard implements driver.Store: there is one.
func (s *Store) Shard(string) string { return "0" }

// drift is how much earlier than its keys a lease ends, because clocks of servers differ: what
// redsync assumes, and the time in which keys expire.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// errorf makes an error that begins with the package that forwards to the store.
func (s *Store) errorf(format string, args ...any) error {
	return fmt.Errorf(s.name+": "+format, args...)
}

// answer is what one of the servers answered.
type answer[T any] struct {
	node  int
	value T
	err   error
}

// ask calls fn for every server at once, for a time at most. The answers come over the channel, all
// of them, even if the caller does not wait for the last ones: a call that is canceled would close
// its connection.
func ask[T any](ctx context.Context, s *Store, bound time.Duration, fn func(ctx context.Context, node int) (T, error)) <-chan answer[T] {
	calls, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	answers := make(chan answer[T], len(s.nodes))
	var all sync.WaitGroup
	for i := range s.nodes {
		all.Go(func() {
			v, err := fn(calls, i)
			answers <- answer[T]{i, v, err}
		})
	}
	go func() { all.Wait(); cancel() }()
	return answers
}

// every waits for all servers, and for those that do not answer only for a part of the time that
// the caller has: a majority is enough.
func every[T any](ctx context.Context, s *Store, op string, fn func(ctx context.Context, node int) (T, error)) ([]answer[T], error) {
	bound := 3 * time.Second
	if end, bounded := ctx.Deadline(); bounded {
		bound = time.Until(end) * 2 / 3
	}
	answers := ask(ctx, s, bound, fn)
	got := make([]answer[T], 0, len(s.nodes))
	for range s.nodes {
		select {
		case a := <-answers:
			got = append(got, a)
		case <-ctx.Done():
			return nil, s.errorf("%s: %w: %w", op, driver.ErrUnknown, ctx.Err())
		}
	}
	return got, nil
}

// failure is the error of a call that a majority of servers did not do. done reports whether the
// servers that did it make the outcome unknown.
func (s *Store) failure(op string, errs []error, done bool) error {
	class := driver.ErrUnavailable
	gone := 0
	for _, err := range errs {
		switch {
		case errors.Is(err, driver.ErrGone):
			gone++
		case errors.Is(err, driver.ErrUnknown):
			done = true
		case !errors.Is(err, driver.ErrUnavailable): // a definite error: the others would say the same
			return s.errorf("%s: %w", op, err)
		}
	}
	if done {
		class = driver.ErrUnknown
	}
	if gone >= s.majority() {
		class = driver.ErrGone
	}
	return s.errorf("%s: %d of %d servers failed, first: %s: %w", op, len(errs), len(s.nodes), errs[0], class)
}

// Inspect implements driver.Store. A lock that only a minority of servers has is not held.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	st := driver.Status{Name: name}
	got, err := every(ctx, s, "inspect", func(ctx context.Context, node int) (driver.Status, error) { return s.nodes[node].Inspect(ctx, name) })
	if err != nil {
		return st, err
	}
	var errs []error
	votes := map[string]int{}
	for _, a := range got {
		if a.err != nil {
			errs = append(errs, a.err)
			continue
		}
		for _, h := range a.value.Holders {
			key := h.Claim.String() + h.Record.Owner
			if votes[key]++; votes[key] == s.majority() {
				st.Holders = append(st.Holders, plain(h))
			}
		}
	}
	if len(errs) > len(s.nodes)-s.majority() {
		return st, s.failure("inspect", errs, false)
	}
	return st, nil
}

// plain is a holder with the claim's own number, and the end that counts.
func plain(h driver.Holder) driver.Holder {
	h.Claim.Seq /= tries
	h.EndsIn -= min(h.EndsIn, drift(h.EndsIn))
	return h
}

// List implements driver.Store: it is not supported.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	return s.nodes[0].List(ctx, q)
}

// Break implements driver.Store: it is not supported, because there are no tokens.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	return s.nodes[0].Break(ctx, name, token)
}

// SetLimit implements driver.Store: it is not supported.
func (s *Store) SetLimit(ctx context.Context, name string, limit int64) error {
	return s.nodes[0].SetLimit(ctx, name, limit)
}

// checked is what the check of a server found, with the run of the server by its address.
type checked struct {
	found []driver.Finding
	runs  map[string]string
}

// Check asks all servers at once: one that does not answer hides nothing of the others.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) {
	got, err := every(ctx, s, "check", func(ctx context.Context, node int) (c checked, err error) {
		c.found, c.runs, err = foreign.CheckRuns(ctx, s.nodes[node])
		return c, err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(got, func(a, b answer[checked]) int { return a.node - b.node })
	var found []driver.Finding
	var errs []error
	addrs := map[string]string{} // by the run of the server
	for _, a := range got {
		some := a.value.found
		if len(found) > 0 { // the first finding is about the format
			some = some[min(1, len(some)):]
		}
		found, errs = append(found, some...), append(errs, a.err)
		for addr, run := range a.value.runs {
			if first, twice := addrs[run]; twice && run != "" {
				found = append(found, driver.Finding{Severity: driver.Danger, Code: "same-server", Node: addr,
					Reason: "it is the server of " + first + " (their run_id is one), and counts as two of the majority: two may hold one lock", Fix: "name each server once"})
			}
			addrs[run] = addr
		}
	}
	return found, errors.Join(errs...)
}

// Close closes the stores of the servers.
func (s *Store) Close() error {
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}
