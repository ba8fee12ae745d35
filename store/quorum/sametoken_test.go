// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/quorum"
)

// paced returns a node whose answers to attempts for x take a while, each as long as the list says.
func paced(node driver.Store, takes []time.Duration) *locktest.Tap {
	var asked atomic.Int64
	s := locktest.NewTap(node)
	s.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
		out, err := next(ctx, c)
		if c.Name == "x" {
			if i := int(asked.Add(1)) - 1; i < len(takes) {
				time.Sleep(takes[i])
			}
		}
		return out, err
	}
	return s
}

// TestGrantedClaimKeepsItsTokenWhenAskedAgain: the grants of two nodes, with a higher token, arrive while the claim is attempted
// again, before two of those that count have answered. The claim keeps the token that it was granted with.
func TestGrantedClaimKeepsItsTokenWhenAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 40 * time.Millisecond
		r := newRig(t, 5, nil)
		nodes := r.nodes(nil)
		for i := range nodes {
			takes := []time.Duration{0, 2 * slow}
			if i == 0 {
				takes = nil
			}
			if i >= 3 {
				takes = []time.Duration{slow}
			}
			nodes[i].Store = paced(nodes[i].Store, takes)
		}
		s, err := quorum.New(nodes, &quorum.Options{Alarm: r.alarm, NodeTimeout: time.Second})
		must.OK(t, err)
		defer func() { _ = s.Close() }()
		ses := opened(t, s, "x")
		for _, late := range r.stores[3:] {
			ahead(t, late, "x")
		}
		c := &driver.Claim{Seq: 1, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
		first, err := ses.Attempt(t.Context(), c)
		if err != nil || first.State != driver.Granted {
			t.Fatalf("attempt: %v, %v", first.State, err)
		}
		c.Watch = true
		again, err := ses.Attempt(t.Context(), c)
		if err != nil || again.State != driver.Granted || again.Token != first.Token {
			t.Errorf("attempted again: %v with token %v, %v; it had %v", again.State, again.Token, err, first.Token)
		}
		if err := ses.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// ahead lets the tokens of a node run ahead of those that a quorum asks for.
func ahead(t *testing.T, s driver.Store, name string) {
	t.Helper()
	ses := opened(t, s, name)
	floor := driver.Token(1) << 62
	out, err := ses.Attempt(t.Context(), &driver.Claim{Seq: 1, Name: name, Floor: floor, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
	if err != nil || out.State != driver.Granted {
		t.Fatalf("ahead: %v, %v", out.State, err)
	}
	must.OK(t, ses.Close(t.Context()))
}

func opened(t *testing.T, s driver.Store, name string) driver.Session {
	t.Helper()
	ses, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard(name), ID: driver.NewSessionID(), TTL: 10 * time.Second})
	must.OK(t, err)
	return ses
}
