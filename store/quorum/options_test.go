// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/quorum"
)

// mute is a store that cannot vote.
type mute struct{ *memstore.Store }

func (m mute) Caps() driver.Caps {
	c := m.Store.Caps()
	c.Floor = false
	return c
}

func TestBadNodesAreErrors(t *testing.T) {
	node := func(name string) quorum.Node { return quorum.Node{Name: name, Store: memstore.New(nil)} }
	brief := quorum.Node{Name: "c", Store: memstore.New(&memstore.Options{MaxTTL: 3 * time.Second})}
	for _, c := range []struct {
		nodes []quorum.Node
		opts  *quorum.Options
		want  string
	}{
		{nil, nil, "use at least 3"},
		{[]quorum.Node{node("a"), node("b")}, nil, "use at least 3"},
		{[]quorum.Node{node("a"), node("b"), node("a")}, nil, "twice"},
		{[]quorum.Node{node("a"), node("b"), node("")}, nil, "needs a name"},
		{[]quorum.Node{node("a"), node("b"), {Name: "c"}}, nil, "no store"},
		{[]quorum.Node{node("a"), node("b"), {Name: "c", Store: mute{memstore.New(nil)}}}, nil, "cannot vote"},
		{[]quorum.Node{node("a"), node("b"), {Name: "c", Store: memstore.New(&memstore.Options{Shards: 3})}}, nil, "different shards"},
		{[]quorum.Node{node("a"), node("b"), node("c")}, &quorum.Options{NodeTimeout: -1}, "NodeTimeout"},
		{[]quorum.Node{node("a"), node("b"), brief}, &quorum.Options{NodeTimeout: 3 * time.Second}, "below the longest TTL that the nodes allow, 3s"},
	} {
		if _, err := quorum.New(c.nodes, c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error about %q", err, c.want)
		}
	}
}

// TestTTLNotAboveNodeTimeoutIsRefused: a session must not end on a node while a call there is
// waited for. Without NodeTimeout, every TTL but the shortest is allowed.
func TestTTLNotAboveNodeTimeoutIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, &memstore.Options{MaxTTL: 2 * time.Second})
		for _, c := range []struct {
			timeout, ttl time.Duration
			ok           bool
		}{
			{time.Second, time.Second, false},
			{time.Second, time.Second + 1, true},
			{0, time.Second, true},
			{0, 500 * time.Millisecond, false},
		} {
			s, err := quorum.New(r.nodes(nil), &quorum.Options{Alarm: r.alarm, NodeTimeout: c.timeout})
			must.OK(t, err)
			d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: c.ttl})
			if c.ok && err != nil || !c.ok && (!errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "NodeTimeout")) {
				t.Errorf("NodeTimeout %v, TTL %v: %v", c.timeout, c.ttl, err)
			}
			if err == nil {
				if err := d.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			_ = s.Close()
		}
	})
}

// TestOtherListIsRefused: two of the three nodes of a client are in use with another
// list. The client is rejected whichever node it reaches first, and accepted once no
// client uses the old list any more.
func TestOtherListIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, nil)
		first := r.store(nil)
		open := func(s *quorum.Store) (driver.Session, error) {
			d, _, err := s.Open(context.Background(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Second})
			return d, err
		}
		held, err := open(first)
		must.OK(t, err)
		second, err := quorum.New(r.nodes(nil)[1:], &quorum.Options{Alarm: r.alarm, NodeTimeout: 200 * time.Millisecond})
		must.OK(t, err)
		defer second.Close()
		defer first.Close()
		if _, err := open(second); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "nodes a,b,c,d") {
			t.Errorf("got %v, want it refused with the other list", err)
		}
		if !r.alarmed(quorum.OtherList) {
			t.Error("no alarm")
		}
		must.OK(t, held.Close(t.Context()))
		_ = first.Close()
		d, err := open(second)
		if err != nil {
			t.Fatalf("the old list is not used any more: %v", err)
		}
		must.OK(t, d.Close(t.Context()))
	})
}

// TestReservedNames: clients can neither lock nor list the names that the quorum reserves.
func TestReservedNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, nil)
		c := r.process(nil, nil)
		if _, err := c.Mutex(".quorum/nodes/0").TryLock(t.Context()); err == nil {
			t.Error("a client acquired the marker")
		}
		r.lock("client", c, "x")
		for st, err := range c.List(t.Context(), "") {
			if err != nil || st.Name != "x" {
				t.Errorf("the list shows %q, %v", st.Name, err)
			}
		}
	})
}
