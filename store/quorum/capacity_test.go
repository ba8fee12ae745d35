// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/quorum"
)

// counted counts the calls to a node, which may be dead.
type counted struct {
	driver.Store
	calls atomic.Int64
	dead  atomic.Bool
}

// call counts a call.
func (c *counted) call() error {
	c.calls.Add(1)
	if c.dead.Load() {
		return fmt.Errorf("connection refused: %w", driver.ErrUnavailable)
	}
	return nil
}

// Open implements driver.Store.
func (c *counted) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if err := c.call(); err != nil {
		return nil, driver.Renewal{}, err
	}
	s, renewal, err := c.Store.Open(ctx, req)
	return &countedSession{s, c}, renewal, err
}

type countedSession struct {
	driver.Session
	c *counted
}

// KeepAlive implements driver.Session.
func (s *countedSession) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	if err := s.c.call(); err != nil {
		return driver.Renewal{}, err
	}
	return s.Session.KeepAlive(ctx)
}

// Attempt implements driver.Session.
func (s *countedSession) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := s.c.call(); err != nil {
		return driver.Outcome{}, err
	}
	return s.Session.Attempt(ctx, c)
}

// Withdraw implements driver.Session.
func (s *countedSession) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	if err := s.c.call(); err != nil {
		return driver.WasAbsent, err
	}
	return s.Session.Withdraw(ctx, w)
}

// Reclaim implements driver.Session.
func (s *countedSession) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	if err := s.c.call(); err != nil {
		return nil, err
	}
	return s.Session.Reclaim(ctx, held, last)
}

// fleet is sessions on a quorum of five counted nodes.
type fleet struct {
	t        *testing.T
	nodes    []*counted
	store    *quorum.Store
	sessions []driver.Session
}

const fleetTTL = 10 * time.Second

func newFleet(t *testing.T, sessions int) *fleet {
	f := &fleet{t: t}
	var nodes []quorum.Node
	for i := range 5 {
		f.nodes = append(f.nodes, &counted{Store: memstore.New(nil)})
		nodes = append(nodes, quorum.Node{Name: nodeName(i), Store: f.nodes[i]})
	}
	s, err := quorum.New(nodes, &quorum.Options{Alarm: func(quorum.Alarm) {}})
	must.OK(t, err)
	f.store = s
	for range sessions {
		d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: fleetTTL})
		must.OK(t, err)
		f.sessions = append(f.sessions, d)
	}
	return f
}

// lock makes every session acquire its own lock.
func (f *fleet) lock(seq uint64) {
	f.t.Helper()
	for i, d := range f.sessions {
		out, err := d.Attempt(f.t.Context(), &driver.Claim{Seq: seq, Name: fmt.Sprint("lock ", i, " ", seq), Queue: true,
			Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		if err != nil || out.State != driver.Granted {
			f.t.Fatal(out.State, err)
		}
	}
}

// keepAlive keeps every session alive, so many times, and returns the calls to each node.
func (f *fleet) keepAlive(times int) (calls []int64) {
	f.t.Helper()
	for _, n := range f.nodes {
		n.calls.Store(0)
	}
	for range times {
		for _, d := range f.sessions {
			if _, err := d.KeepAlive(f.t.Context()); err != nil {
				f.t.Fatal(err)
			}
		}
		time.Sleep(fleetTTL / 3)
	}
	synctest.Wait()
	for _, n := range f.nodes {
		calls = append(calls, n.calls.Load())
	}
	return calls
}

// TestDeadNodeCostsTheOthersNothing: while one of five nodes is dead, each keep-alive of a
// session that holds locks is one call to each of the others, and one to the dead node. There
// are no retries between keep-alives. What is done once, to join nodes to claims, is bounded.
func TestDeadNodeCostsTheOthersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions, rounds = 200, 10
		f := newFleet(t, sessions)
		defer f.store.Close()
		oneEach := func(when string) {
			t.Helper()
			for i, n := range f.keepAlive(rounds) {
				if n != sessions*rounds {
					t.Errorf("%s: %d keep-alives of %d sessions are %d calls to node %s, want %d", when, rounds, sessions, n, nodeName(i), sessions*rounds)
				}
			}
		}
		f.lock(1)
		f.keepAlive(2) // joins nodes that answered late, or granted with another token
		f.nodes[4].dead.Store(true)
		f.keepAlive(1) // finds out
		f.lock(2)
		synctest.Wait()
		once := f.keepAlive(1)
		oneEach("one node is dead")
		f.nodes[4].dead.Store(false)
		back := f.keepAlive(2)
		oneEach("all nodes are back")
		for i, n := range back {
			if once[i] > 3*sessions || n > 8*sessions {
				t.Errorf("node %s has %d calls in the first keep-alive after locks, %d in the first two after one node was back, of %d sessions", nodeName(i), once[i], n, sessions)
			}
		}
		t.Logf("calls in the first keep-alive after locks: %d; in the first two after one node was back: %d", once, back)
	})
}
