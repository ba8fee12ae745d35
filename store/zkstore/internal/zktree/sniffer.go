// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Numbers of the protocol.
const (
	opPing  = 11
	opClose = -11
	noXid   = -1 << 31 // of no request
)

// sniffer is what the connections of one session send and receive. The client library
// keeps four things to itself that the contract needs:
//
//   - Its pings. It sends one each third of the timeout, whatever else it sends. The
//     session would then live for as long as the process does, whether the core keeps
//     it alive or not, and cost a second heartbeat. They are not let through:
//     KeepAlive is the heartbeat.
//   - How long it waits for an answer. It gives a connection up when nothing has come
//     for two thirds of the timeout, which without pings is every idle connection. Here
//     an idle one may rest, and one that owes an answer is given up after a quarter:
//     then there is time to go on at another server before the session ends.
//   - The timeout that the server agreed to. It stands in the first answer.
//   - Whether the server has answered the request to close. The library gives up on
//     it in silence.
//
// Requests are written with one Write each; answers are read as they come, so of
// those the length and the number are followed through the stream.
type sniffer struct {
	pings   bool          // let them through
	ask     time.Duration // the timeout asked for
	timeout atomic.Int64  // ms
	closing atomic.Int32  // xid of the request to close, noXid before
	once    sync.Once
	closed  chan struct{} // the server has answered it
	// trouble is why there was no greeting the last time, as text in an error: the library goes
	// on trying, and does not report why.
	trouble atomic.Pointer[error]
}

// failed notes why there is no connection.
func (sn *sniffer) failed(err error) { sn.trouble.Store(&err) }

// why returns an error with what is known of why there is no connection.
func (sn *sniffer) why(err error) error {
	if trouble := sn.trouble.Load(); trouble != nil {
		return fmt.Errorf("%w: %w", err, *trouble)
	}
	return err
}

func newSniffer(pings bool, ask time.Duration) *sniffer {
	sn := &sniffer{pings: pings, ask: ask, closed: make(chan struct{})}
	sn.closing.Store(noXid)
	return sn
}

// agreed returns the timeout that the server agreed to.
func (sn *sniffer) agreed() time.Duration { return time.Duration(sn.timeout.Load()) * time.Millisecond }

// wrap listens in on a connection.
func (sn *sniffer) wrap(conn net.Conn) net.Conn { return &sniffedConn{Conn: conn, sniffer: sn} }

// sniffedConn is one connection.
type sniffedConn struct {
	net.Conn
	sniffer *sniffer
	// Of the answer that is being read: how many of its bytes came, and the first
	// of them, with the length.
	came    int
	head    [12]byte
	greeted bool // the first answer has come
	sent    bool // the first request has been sent

	mu   sync.Mutex
	owed int // answers
}

// patience is until when an answer may come.
func (c *sniffedConn) patience() time.Time {
	timeout := c.sniffer.ask
	if c.greeted {
		timeout = c.sniffer.agreed()
	}
	return time.Now().Add(timeout / 4)
}

// SetReadDeadline implements net.Conn and ignores the library's deadlines. The library
// would wait more than six times the timeout for the greeting of a server that stands
// still, whose kernel still accepts connections.
func (c *sniffedConn) SetReadDeadline(t time.Time) error {
	switch {
	case !c.greeted && !t.IsZero():
		return c.Conn.SetReadDeadline(c.patience())
	case !c.greeted || c.sniffer.pings:
		return c.Conn.SetReadDeadline(t)
	}
	return nil
}

// owe notes that n more answers are due, or fewer.
func (c *sniffedConn) owe(n int) {
	if c.sniffer.pings {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.owed
	c.owed = max(0, c.owed+n)
	switch {
	case c.owed == 0:
		_ = c.Conn.SetReadDeadline(time.Time{})
	case before == 0 || n < 0:
		_ = c.Conn.SetReadDeadline(c.patience())
	}
}

// Write implements net.Conn.
func (c *sniffedConn) Write(p []byte) (int, error) {
	if c.sent && c.greeted && len(p) >= 12 {
		xid, op := int32(binary.BigEndian.Uint32(p[4:])), int32(binary.BigEndian.Uint32(p[8:]))
		switch {
		case op == opPing && !c.sniffer.pings:
			return len(p), nil
		case op == opClose:
			c.sniffer.closing.Store(xid)
		}
		c.owe(1)
	}
	c.sent = true // the first is a greeting and has neither number nor code
	return c.Conn.Write(p)
}

// Read implements net.Conn.
func (c *sniffedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.follow(p[:n])
	if err != nil && !c.greeted {
		c.sniffer.failed(fmt.Errorf("no greeting from %s, use zks:// for a port with TLS and zk:// for one without: %w", c.RemoteAddr(), err))
	}
	return n, err
}

// follow counts the bytes of answers.
func (c *sniffedConn) follow(p []byte) {
	for len(p) > 0 {
		left := 4 - c.came // of the length, then of the rest
		if left <= 0 {
			left = 4 + c.size() - c.came
		}
		n := min(len(p), left)
		if c.came < len(c.head) {
			copy(c.head[c.came:], p[:n])
		}
		c.came += n
		p = p[n:]
		if c.came >= 4 && c.came == 4+c.size() {
			c.answer()
			c.came = 0
		}
	}
}

// size is the number of bytes after the length, once that is known.
func (c *sniffedConn) size() int { return int(binary.BigEndian.Uint32(c.head[:])) }

// answer is called with the head of each whole answer.
func (c *sniffedConn) answer() {
	if !c.greeted {
		c.greeted = true
		c.sniffer.trouble.Store(nil)
		c.sniffer.timeout.Store(int64(int32(binary.BigEndian.Uint32(c.head[8:]))))
		return
	}
	xid := int32(binary.BigEndian.Uint32(c.head[4:]))
	if xid >= 0 { // the others are events and answers to pings
		c.owe(-1)
	}
	if xid == c.sniffer.closing.Load() {
		c.sniffer.once.Do(func() { close(c.sniffer.closed) })
	}
}
