// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestLostReply: the server executes a command, its reply is lost, and then the server is
// gone. A client library that retries by itself would report the failure of the second try,
// which did nothing, although the first try took the lock.
func TestLostReply(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			server := redistest.Start(t)
			way := newCutter(t, server.Addr)
			s := lib.open(t, login{Addr: way.addr}, nil)
			id := driver.NewSessionID()
			session, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: id, TTL: 20 * time.Second})
			must.OK(t, err)
			claim := func(seq uint64, name string) *driver.Claim {
				return &driver.Claim{Seq: seq, Name: name, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
			}
			if out, err := session.Attempt(t.Context(), claim(1, "warm")); err != nil || out.State != driver.Granted {
				t.Fatalf("got %v, %v", out.State, err)
			}
			way.cut.Store(true)
			out, err := session.Attempt(t.Context(), claim(2, "x"))
			if !errors.Is(err, driver.ErrUnknown) {
				t.Errorf("got %v, %v, want an unknown outcome", out.State, err)
			}
			other := lib.open(t, login{Addr: server.Addr}, nil)
			st, err := other.Inspect(t.Context(), "x")
			if err != nil || len(st.Holders) != 1 {
				t.Errorf("%d holders, %v; the request did not get through, so this showed nothing", len(st.Holders), err)
			}
		})
	}
}

// cutter forwards connections until cut is set. The next answer of the server is
// then thrown away with its connection, and no other connection is let in.
type cutter struct {
	addr string
	cut  atomic.Bool
}

func newCutter(t testing.TB, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	c := &cutter{addr: l.Addr().String()}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in) }()
			go c.back(in, out, l)
		}
	}()
	return c
}

func (c *cutter) back(in, out net.Conn, l net.Listener) {
	defer in.Close()
	defer out.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := out.Read(buf)
		if err != nil {
			return
		}
		if c.cut.Load() {
			_ = l.Close()
			return
		}
		if _, err := in.Write(buf[:n]); err != nil {
			return
		}
	}
}
