// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"io"
	"net"
	"sync/atomic"
)

// Dialer makes connections that can lose a reply: the request arrives and is
// worked on, and the connection breaks when the answer comes. Give DialContext
// to the client of the resource. The zero value is ready. It suits clients that
// read only when they wait for an answer; others, such as gRPC, need a hook of
// their own.
type Dialer struct {
	net   net.Dialer
	armed atomic.Bool
}

// DialContext connects as net.Dialer does.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := d.net.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &lossyConn{Conn: c, d: d}, nil
}

// LoseNextReply makes the connection that sends next lose what comes back, and
// break.
func (d *Dialer) LoseNextReply() { d.armed.Store(true) }

type lossyConn struct {
	net.Conn
	d   *Dialer
	cut atomic.Bool
}

// Write sends.
func (c *lossyConn) Write(b []byte) (int, error) {
	if c.d.armed.CompareAndSwap(true, false) {
		c.cut.Store(true)
	}
	return c.Conn.Write(b)
}

// Read waits for the real answer and then withholds it.
func (c *lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.cut.Load() {
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}
