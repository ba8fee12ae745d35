// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Harness connects the cases to the guard under test.
type Harness struct {
	// Name names the guard in reports.
	Name string

	// New returns a fresh value behind the guard: empty, never entered, and
	// guarded by the lock of that name. It is called once per case or more.
	New func(ctx context.Context, lock string) (*Value, error)

	// Restart makes the resource lose everything that it does not keep as
	// durably as the value, as a restart of its server does. Values stay
	// usable. If nil, the case that needs it is skipped.
	Restart func(ctx context.Context) error

	// Patience is how long a case waits for a call that seems to be blocked by
	// a stopped one before that one goes on; a quarter of a second by default.
	// It must be longer than a call takes that is not blocked: on a machine too
	// slow for that a mistake can stay unseen. Each blocked order costs it.
	Patience time.Duration

	// Soon is how long any call may take, 20 s by default.
	Soon time.Duration
}

const (
	defaultPatience = 250 * time.Millisecond
	refusesPatience = 10 * time.Second // below Soon: a blocked call must outlast it
	defaultSoon     = 20 * time.Second
)

// Value is one value behind the guard under test. Its functions take the token
// from the context, as the guard does, and must be safe for concurrent use:
// several holders call them.
type Value struct {
	// Enter raises the fence to the token in ctx and then reads the value.
	Enter func(ctx context.Context) (string, error)
	// Write replaces the value if the token in ctx is admitted.
	Write func(ctx context.Context, value string) error
	// Read returns the value, whatever the fence: it is how the cases read
	// what has become of it.
	Read func(ctx context.Context) (string, error)
	// LoseReply is Write with a reply that is lost on the way, by a client with
	// the settings that are in use: one that sends a write again is found out. It
	// calls Lost at that moment; Dialer does both. If nil, the cases that need
	// it are skipped.
	LoseReply func(ctx context.Context, value string) error
	// Reopen returns the same value as another process sees it: the guard and
	// its client are made again and share nothing with this one but the
	// resource. If nil, the cases that need it are skipped.
	Reopen func(ctx context.Context) (*Value, error)
}

func (h *Harness) patience() time.Duration {
	if h.Patience > 0 {
		return h.Patience
	}
	return defaultPatience
}

func (h *Harness) soon() time.Duration {
	if h.Soon > 0 {
		return h.Soon
	}
	return defaultSoon
}

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
