// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/drivertest"
	"github.com/fencelock/fencelock/quorum"
	"github.com/fencelock/fencelock/redisstore"
	"github.com/fencelock/fencelock/redisstore/internal/redistest"
)

// quorumRig is five servers used as a quorum.
type quorumRig struct{ nodes []*quorumNode }

const quorumSize = 5

func newQuorumRig(t testing.TB, opts redisstore.Options) *quorumRig {
	q := &quorumRig{}
	for range quorumSize {
		server := redistest.Start(t)
		q.nodes = append(q.nodes, &quorumNode{lib: libraries[0], opts: opts, server: server, login: login{addr: server.Addr}})
	}
	return q
}

// each does something to all servers at once.
func (q *quorumRig) each(f func(r *quorumNode) error) error {
	results := make(chan error, len(q.nodes))
	for _, r := range q.nodes {
		go func() { results <- f(r) }()
	}
	var all error
	for range q.nodes {
		all = errors.Join(all, <-results)
	}
	return all
}

func (q *quorumRig) harness() *drivertest.Harness {
	h := q.nodes[0].harness()
	inner := make([]*drivertest.Harness, len(q.nodes))
	for i, r := range q.nodes {
		inner[i] = r.harness()
	}
	h.TTL, h.Slack = time.Second, 400*time.Millisecond // five calls for one, on the same processors
	h.Open = func() (driver.Store, error) { return q.open(inner) }
	h.Forget = func() error { return q.each(func(r *quorumNode) error { return r.server.Do("FLUSHALL").Err() }) }
	h.Restart = func() error { return q.each(func(r *quorumNode) error { return r.back(r.server.Reboot()) }) }
	h.Checkpoint = func() func() error {
		rewinds := map[*quorumNode]func() error{}
		for i, r := range q.nodes {
			rewinds[r] = inner[i].Checkpoint()
		}
		return func() error { return q.each(func(r *quorumNode) error { return rewinds[r]() }) }
	}
	h.Sever = func() func() {
		var heal []func()
		for _, r := range q.nodes {
			heal = append(heal, r.server.Stop())
		}
		return func() {
			for _, f := range heal {
				f()
			}
		}
	}
	return h
}

// open returns a quorum with clients of its own.
func (q *quorumRig) open(inner []*drivertest.Harness) (*quorum.Store, error) {
	var nodes []quorum.Node
	for i := range q.nodes {
		s, err := inner[i].Open()
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint("n", i), Store: s})
	}
	return quorum.New(nodes, &quorum.Options{Alarm: func(quorum.Alarm) {}})
}

func (q *quorumRig) done() {
	for _, r := range q.nodes {
		r.done()
	}
}

// TestQuorumConformance holds a quorum of five servers to the store clauses: all of
// them without grace, and those about a loss of memory with it. A grace lasts as
// long as the longest session, so the rest would wait, or end too early.
func TestQuorumConformance(t *testing.T) {
	start := func(t *testing.T, n int, opts redisstore.Options) (rigs []*quorumRig) {
		for range n {
			rigs = append(rigs, newQuorumRig(t, opts))
		}
		return rigs
	}
	t.Run("grace=false", func(t *testing.T) {
		t.Parallel() // nearly all of the time is waiting
		atStations(t, drivertest.Cases(), start(t, 3, redisstore.Options{}))
	})
	t.Run("grace=true", func(t *testing.T) {
		t.Parallel()
		var loss []drivertest.Case
		for _, c := range drivertest.Cases() {
			if c.Clause.ID[0] == 'R' || c.Clause.ID == "T5" || c.Name == "X3/reclaimed during grace" {
				loss = append(loss, c)
			}
		}
		atStations(t, loss, start(t, 4, redisstore.Options{Grace: true, MaxTTL: 5 * time.Second}))
	})
}

// process is a client of a rig's servers in a namespace.
func (q *quorumRig) process(t testing.TB, opts *fencelock.Options) *fencelock.Client {
	t.Helper()
	return q.processOf(t, opts, nil)
}

// processOf is process with the stores wrapped.
func (q *quorumRig) processOf(t testing.TB, opts *fencelock.Options, wrap func(i int, s driver.Store) driver.Store) *fencelock.Client {
	t.Helper()
	var nodes []quorum.Node
	for i, r := range q.nodes {
		var s driver.Store = r.lib.open(t, r.login, &r.opts).Store
		if wrap != nil {
			s = wrap(i, s)
		}
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint("n", i), Store: s})
	}
	store, err := quorum.New(nodes, &quorum.Options{Alarm: func(a quorum.Alarm) { t.Logf("alarm: %+v", a) }})
	if err != nil {
		t.Fatal(err)
	}
	c, err := fencelock.New(store, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = c.Close(ctx)
		store.Wait()
	})
	return c
}
