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
// to the client of the resource. The zero value is ready to use. It suits clients
// that read only when they wait for an answer; others, such as gRPC, need their
// own hook.
type Dialer struct {
	net   net.Dialer
	armed atomic.Pointer[func()]
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
// break. Give it the context of the call: when the reply has come, and before the
// connection breaks, it calls Lost with it.
func (d *Dialer) LoseNextReply(ctx context.Context) {
	lost := func() { Lost(ctx) }
	d.armed.Store(&lost)
}

type lossyConn struct {
	net.Conn
	d   *Dialer
	cut atomic.Pointer[func()]
}

// Write sends.
func (c *lossyConn) Write(b []byte) (int, error) {
	if lost := c.d.armed.Swap(nil); lost != nil {
		c.cut.Store(lost)
	}
	return c.Conn.Write(b)
}

// Read waits for the real answer and then withholds it.
func (c *lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if lost := c.cut.Load(); n > 0 && lost != nil {
		(*lost)()
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}
