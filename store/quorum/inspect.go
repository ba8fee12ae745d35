// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// every makes a call on all nodes at once, each with its own context, and returns the
// answers by node. Once least nodes have answered it waits for the others, up to NodeTimeout, but
// not for a node that did not answer its last call. A slow node decides, too: what only it and
// a minority of the rest have would otherwise be shown as free, or listed again.
func every[T any](ctx context.Context, s *Store, op string, least int, f func(ctx context.Context, n int) (T, error)) (map[int]T, error) {
	if err := ctx.Err(); err != nil {
		return nil, errNotStarted(op, err)
	}
	type result struct {
		answer
		value T
	}
	awaited := s.health.worth(least)
	results := make(chan result, len(s.nodes))
	for n := range s.nodes {
		s.background.run(func() {
			bound := s.bound()
			v, err := f(bound, n)
			s.health.answered(n, err)
			results <- result{answer{n, err}, v}
		})
	}
	got := map[int]T{}
	var failed errs
	for left := len(s.nodes); left > 0 && (len(got) < least || awaited != 0); {
		select {
		case r := <-results:
			left--
			awaited = awaited.Without(r.n)
			if failed.add(s.nodes[r.n].Name, r.err); r.err == nil {
				got[r.n] = r.value
			}
		case <-ctx.Done():
			return nil, errCanceled(op, ctx.Err())
		}
	}
	if len(got) < least {
		return got, failed.err(op)
	}
	return got, nil
}

// Inspect implements driver.Store. It shows what a majority of the nodes shows.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	st, _, err := s.inspect(ctx, name)
	return st, err
}

// inspect also returns how long each node that has anything of the name has had it.
func (s *Store) inspect(ctx context.Context, name string) (driver.Status, map[int]time.Duration, error) {
	got, err := every(ctx, s, "inspect", s.majority(), func(ctx context.Context, n int) (driver.Status, error) {
		return s.nodes[n].Store.Inspect(ctx, name)
	})
	if err != nil {
		return driver.Status{}, nil, err
	}
	st := driver.Status{Name: name}
	lists := map[int][]driver.Holder{}
	var limits []int64
	var graces []time.Duration
	ages := map[int]time.Duration{}
	for n, one := range got {
		lists[n] = one.Holders
		limits = append(limits, one.Limit)
		if one.Grace > 0 {
			graces = append(graces, one.Grace)
		}
		for _, h := range one.Holders {
			ages[n] = max(ages[n], h.Age)
		}
		for _, w := range one.Waiters {
			ages[n] = max(ages[n], w.Age)
		}
	}
	for _, g := range merged(lists) {
		if g.nodes.Len() >= s.majority() {
			st.Holders = append(st.Holders, g.holder(s.majority()))
		}
	}
	st.Waiters = s.waiters(got)
	st.Waiting = len(st.Waiters)
	st.Limit = common(limits, func(l int64) int64 { return l })
	if spare := len(s.nodes) - s.majority(); len(graces) > spare {
		slices.Sort(graces)
		st.Grace = graces[len(graces)-spare-1] // when a majority rests no more
	}
	return st, ages, nil
}

// waiters are the claims that wait on a majority, in the order of the first node
// that shows all of them.
func (s *Store) waiters(got map[int]driver.Status) (all []driver.Waiter) {
	count := map[claimKey]int{}
	longest := -1
	for n, st := range got {
		for _, w := range st.Waiters {
			count[keyOf(w.Claim)]++
		}
		if longest < 0 || len(st.Waiters) > len(got[longest].Waiters) || len(st.Waiters) == len(got[longest].Waiters) && n < longest {
			longest = n
		}
	}
	for _, w := range got[longest].Waiters {
		if count[keyOf(w.Claim)] >= s.majority() {
			w.Claim.Seq = coreSeq(w.Claim.Seq)
			all = append(all, w)
		}
	}
	return all
}

// SetLimit implements driver.Store. A claim with a limit needs every node, and so
// does its limit.
func (s *Store) SetLimit(ctx context.Context, name string, limit int64) error {
	if limit < 0 {
		return fmt.Errorf("quorum: limit %d is below 0: %w", limit, driver.ErrRefused)
	}
	if err := allowed(name); err != nil {
		return err
	}
	_, err := every(ctx, s, "set limit", len(s.nodes), func(ctx context.Context, n int) (struct{}, error) {
		return struct{}{}, s.nodes[n].Store.SetLimit(ctx, name, limit)
	})
	return err
}
