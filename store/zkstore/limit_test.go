// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore"
)

// TestLimitIsSetInOneMoment: a claim that is granted under the old limit, between the read
// and the write of SetLimit, keeps its grant.
func TestLimitIsSetInOneMoment(t *testing.T) {
	e := start(t, 1)
	t.Run("a claim comes", func(t *testing.T) {
		s := newSlots(t, e, 3)
		s.attempt(1, driver.Granted)
		s.lowered(2, func() { s.attempt(2, driver.Granted) })
	})
	t.Run("a claim leaves", func(t *testing.T) {
		s := newSlots(t, e, 2)
		s.attempt(1, driver.Granted)
		s.attempt(2, driver.Granted)
		s.attempt(3, driver.Queued)
		s.lowered(2, func() {
			if _, err := s.ses.Withdraw(t.Context(), driver.Withdrawal{Name: t.Name(), Seq: 1}); err != nil {
				t.Error(err)
			}
			s.attempt(3, driver.Granted)
		})
	})
}

// slots is a semaphore, with an operator whose requests can be held back.
type slots struct {
	t        *testing.T
	ses      driver.Session
	operator *zkstore.Store
	conn     *beforeMulti
}

func newSlots(t *testing.T, e *servers.Ensemble, limit int64) *slots {
	s := &slots{t: t}
	var err error
	s.ses, _, err = newProcess(t, e.Addrs(), 30*time.Second).store.Open(t.Context(),
		driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 30 * time.Second})
	must.OK(t, err)
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		s.conn = &beforeMulti{Conn: conn, skip: 1}
		return s.conn, err
	}
	if s.operator, err = zkstore.New(e.Addrs(), &zkstore.Options{TickTime: servers.TickTime, Dial: dial}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.operator.Close() })
	s.set(limit)
	return s
}

func (s *slots) set(limit int64) {
	s.t.Helper()
	must.OK(s.t, s.operator.SetLimit(s.t.Context(), s.t.Name(), limit))
}

func (s *slots) attempt(seq uint64, want driver.State) {
	s.t.Helper()
	out, err := s.ses.Attempt(s.t.Context(), &driver.Claim{Seq: seq, Name: s.t.Name(), Queue: true,
		Terms: &driver.Terms{Mode: driver.Shared, Weight: 1, Limit: 9, Record: &driver.Record{}}})
	if err != nil || out.State != want {
		s.t.Errorf("claim %d: %v, %v; want %v", seq, out.State, err, want)
	}
}

// lowered sets the limit to 1. Its first transaction comes before the look, its second is
// the write, before which something happens.
func (s *slots) lowered(holders int, meanwhile func()) {
	s.t.Helper()
	s.conn.hook.Store(&meanwhile)
	s.set(1)
	st, err := s.operator.Inspect(s.t.Context(), s.t.Name())
	if err != nil || len(st.Holders) != holders || st.Limit != 1 {
		s.t.Errorf("%d hold with a limit of %d, %v; want %d, which were granted, and 1", len(st.Holders), st.Limit, err, holders)
	}
}

// beforeMulti calls a function once, before the transaction that comes after those it skips. It counts from when it has one.
type beforeMulti struct {
	net.Conn
	hook atomic.Pointer[func()]
	skip int
}

// Write implements net.Conn. The first request of a connection has no code.
func (c *beforeMulti) Write(p []byte) (int, error) {
	const multi = 14
	if hook := c.hook.Load(); hook != nil && len(p) >= 12 && binary.BigEndian.Uint32(p[8:]) == multi {
		if c.skip == 0 {
			(*hook)()
		}
		c.skip--
	}
	return c.Conn.Write(p)
}
